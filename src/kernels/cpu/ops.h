#pragma once

#include <cstdint>

#include "kernels/ops.h"

// What row kernels take. No inline functions here: files of every instruction set include this.
namespace kvik::cpu {

// One side of an operation: n values, or one for all.
struct Operand {
  const float* data;
  bool is_scalar = false;
};

struct NormArgs {
  const float* weight = nullptr;  // [n] or null
  const float* bias = nullptr;    // [n] or null
  float epsilon = 1e-5f;
};

// Pairs of each head turn by the angles whose cosines and sines are given; what lies beyond 2 * n_pairs stays as it is.
struct RotaryArgs {
  const float* cos;  // [n_pairs]
  const float* sin;  // [n_pairs]
  int64_t n_pairs;   // of a head: half of what is rotated
  int64_t n_heads;
  int64_t head_dim;  // values from head to head
  bool interleaved;  // pairs are neighbors; otherwise (i, i + n_pairs)
};

}  // namespace kvik::cpu
