#pragma once

#include <cstdint>

// What the row kernels can be asked for. No inline functions here: the files of every instruction set include this.
namespace kvik::cpu {

enum class Unary : uint8_t {
  kNeg,
  kAbs,
  kSqrt,
  kRsqrt,  // 1 / sqrt(x), both rounded
  kReciprocal,
  kExp,
  kLog,
  kTanh,
  kErf,
  kSigmoid,
  kSilu,
  kGeluErf,
  kGeluTanh,
  kGeluQuick,  // x * sigmoid(1.702 x)
  kRelu,
  kSoftplus,
  kSin,
  kCos,
  kFloor,
  kCeil,
  kRound,  // to even
  kSign,
  kSquare,
  kNot,       // 1 where x is 0, else 0
  kIdentity,  // a copy
};
inline constexpr int kUnaryCount = static_cast<int>(Unary::kIdentity) + 1;

// Comparisons and logic give 1 and 0; logic takes everything but 0 for true.
enum class Binary : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,
  kMax,
  kPow,
  kMod,  // a - b * floor(a / b)
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual,
  kNotEqual,
  kAnd,
  kOr,
  kXor,
};
inline constexpr int kBinaryCount = static_cast<int>(Binary::kXor) + 1;

enum class Reduce : uint8_t { kSum, kMean, kMax, kMin, kProd, kSumSquare, kSumAbs, kL2 };
inline constexpr int kReduceCount = static_cast<int>(Reduce::kL2) + 1;

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
  bool interleaved;  // pairs are neighbours; otherwise (i, i + n_pairs)
};

}  // namespace kvik::cpu
