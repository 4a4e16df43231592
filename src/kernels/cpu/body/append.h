#pragma once

#include "kernels/cpu/body/declarations.h"
#include "kernels/cpu/body/quantize.h"

// Keys and values of one position into a page; see KvLayout.
namespace kvik::cpu::KVIK_ISA {

KVIK_INLINE void append_f32(const KvLayout& layout, std::byte* head, int64_t slot, const float* k, const float* v) {
  float* keys = reinterpret_cast<float*>(head);
  for (int64_t d = 0; d < layout.key_dim; ++d) keys[d * kPagePositions + slot] = k[d];
  float* values = reinterpret_cast<float*>(head + layout.values_offset) + slot * layout.value_stride;
  for (int d = 0; d < layout.value_stride; d += kLanes) store(values + d, row_vector(v, layout.value_dim, d / kLanes));
}

KVIK_INLINE void append_f16(const KvLayout& layout, std::byte* head, int64_t slot, const float* k, const float* v) {
  Half* keys = reinterpret_cast<Half*>(head);
  for (int d = 0; d < layout.key_dim; d += kLanes) {
    Half lanes[kLanes];
    store(lanes, row_vector(k, layout.key_dim, d / kLanes));
    for (int i = 0; i < kLanes && d + i < layout.key_dim; ++i) keys[int64_t{d + i} * kPagePositions + slot] = lanes[i];
  }
  Half* values = reinterpret_cast<Half*>(head + layout.values_offset) + slot * layout.value_stride;
  for (int d = 0; d < layout.value_stride; d += kLanes) store(values + d, row_vector(v, layout.value_dim, d / kLanes));
}

KVIK_INLINE void append_q8(const KvLayout& layout, std::byte* head, int64_t slot, const float* k, const float* v) {
  alignas(64) int8_t bytes[kMostQuantizedDim];
  int8_t* keys = reinterpret_cast<int8_t*>(head);
  reinterpret_cast<float*>(head + layout.key_scales_offset)[slot] = quantize_head(k, layout.key_dim, bytes).scale;
  for (int64_t d = 0; d < layout.key_dim; d += 4) memcpy(keys + d * kPagePositions + slot * 4, bytes + d, 4);
  int8_t* values = reinterpret_cast<int8_t*>(head + layout.values_offset) + slot * layout.value_stride;
  reinterpret_cast<float*>(head + layout.value_scales_offset)[slot] = quantize_head(v, layout.value_dim, values).scale;
}

void append(const KvLayout& layout, std::byte* page, int64_t slot, const float* k, const float* v) {
  for (int64_t h = 0; h < layout.n_heads; ++h) {
    std::byte* head = page + h * layout.head_bytes;
    const float *hk = k + h * layout.key_dim, *hv = v + h * layout.value_dim;
    switch (layout.format) {
      case KvFormat::kF32: append_f32(layout, head, slot, hk, hv); break;
      case KvFormat::kF16: append_f16(layout, head, slot, hk, hv); break;
      case KvFormat::kQ8: append_q8(layout, head, slot, hk, hv); break;
    }
  }
}

}  // namespace kvik::cpu::KVIK_ISA
