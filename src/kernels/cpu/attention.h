#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "kernels/cpu/kernels.h"

namespace kvik::cpu {

// One row of an attention: all its query heads over the keys of its sequence. Keys and values are in the pages before it is asked.
struct AttendRow {
  const float* q;                 // [n_heads][key_dim]
  float* out;                     // [n_heads][value_dim]
  const std::byte* const* pages;  // of its sequence: [position / kPagePositions]; those that it does not see may be null
  int64_t first_key = 0;          // sees first_key <= key < n_keys: n_keys = position + 1 is causal, first_key the start of a window
  int64_t n_keys = 0;
  int64_t position = 0;         // of the query itself, for distances
  const float* bias = nullptr;  // [n_heads][bias_stride] added to the scores, key by key, or null; stride 0: one for all heads
  int64_t bias_stride = 0;
};

struct Attention {
  KvLayout layout;
  AttendRule rule;
  int32_t n_heads;                      // query heads
  const int32_t* kv_head_of = nullptr;  // [n_heads], or null: n_heads / n_kv_heads neighbors share one
  int64_t page_offset = 0;              // bytes from the start of a page to this layer
};

// Floats of scratch that attend() needs for n_rows rows of at most n_keys keys.
int64_t attend_scratch_floats(const Attention& attention, int64_t n_rows, int64_t n_keys);

// All rows, on all threads of the pool. Neighboring rows of one sequence (the same `pages`) share the reading of keys and values.
// Bits depend on neither the threads nor the company of a row.
void attend(ThreadPool& pool, const CpuKernels& kernels, const Attention& attention, std::span<const AttendRow> rows,
            std::span<float> scratch);

}  // namespace kvik::cpu
