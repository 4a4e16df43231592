#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ops.h"

// Attention over keys and values in pages. No inline functions here: the files of every instruction set include this.
namespace kvik::cpu {

enum class KvFormat : uint8_t { kF32, kF16, kQ8 };

constexpr int kPagePositions = 32;   // positions of a page: one panel of keys, a 64-byte line for each dimension in f16
constexpr int kSpanPositions = 256;  // attention goes span by span, at these fixed boundaries, so that threads change no bit

constexpr int kMostQuantizedDim = 1024;  // of a head in q8: a quantized query lies on the stack

// What one layer keeps in a page: for each KV head
//   keys    f32, f16 [key_dim][32 positions]; q8 [key_dim / 4][32 positions][4] and an f32 scale for each position
//   values  [32 positions][value_stride]; q8 with an f32 scale for each position
struct KvLayout {
  KvFormat format;
  int32_t n_heads;  // KV heads
  int32_t key_dim, value_dim;
  int32_t value_stride;                                           // value_dim padded to 16
  int64_t key_scales_offset, values_offset, value_scales_offset;  // bytes, from the start of a head
  int64_t head_bytes;
  int64_t page_bytes;  // of one layer, a multiple of 64
};
// Throws Error(kBadArgument) unless all counts are at least 1 and of a sane size.
KvLayout kv_layout(KvFormat format, int64_t n_kv_heads, int64_t key_dim, int64_t value_dim);
// Zeros for what one layer keeps of the positions of a page from `first` on; `page` is where the layer begins.
void clear_positions(const KvLayout& layout, std::byte* page, int first);
// Copies what one layer keeps of the first n positions of a page, and perhaps some of the others.
void copy_positions(const KvLayout& layout, const std::byte* from, std::byte* to, int n);

// What all rows of one attention share. A score is q.k * scale, rounded, then cap * tanh(score / cap), then plus the biases.
struct AttendRule {
  float scale = 1.0f;
  const Rounding* score_roundings = nullptr;   // one after the other
  const Rounding* weight_roundings = nullptr;  // of what the softmax gives; no sinks then
  int32_t n_score_roundings = 0, n_weight_roundings = 0;
  float soft_cap = 0.0f;                 // 0: none
  const float* slopes = nullptr;         // [n_heads]: + slope * (key position - query position)
  const float* distance_bias = nullptr;  // [n_heads][n_distances]: + bias at query position - key position - first_distance, clamped
  int64_t n_distances = 0;
  int64_t first_distance = 0;
  const float* sinks = nullptr;  // [n_heads]: one more score, with no value
};

// One query head of one row.
struct AttendQuery {
  const float* q;             // [key_dim]
  const float* bias;          // [n_keys] added to the scores, or null
  int64_t first_key, n_keys;  // it sees first_key <= key < n_keys
  int64_t position;           // of the query, for distances
  int64_t head;               // of the query, for slopes, tables and sinks
  // Of all its scores, for weights that are rounded: the largest, and the sum of exponentials. 0: still to be found, without values.
  float largest = 0, total = 0;
};

// The keys and values of one sequence in one layer, as one KV head sees them, or as a KV head for each query.
struct KvPages {
  const std::byte* const* pages;  // [position / 32]; those that no query sees may be null
  int64_t offset;                 // bytes from the start of a page to this layer and the head of the first query
  int64_t head_step = 0;          // bytes from the head of one query to that of the next; 0: one head for all of them
};

// A part of the answer, over one span or several: [0] the largest score, [1] the sum of exponentials, from [16] on value_stride sums.
constexpr int kPartHeader = 16;

}  // namespace kvik::cpu
