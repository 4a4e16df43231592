#include "kernels/cpu/sources.h"

#include <algorithm>
#include <fmt/core.h>

#include "kernels/cpu/kernels.h"
#include "kvik/error.h"

namespace kvik::cpu {
namespace {

template <class T>
const T* as(const void* data) {
  return static_cast<const T*>(data);
}

bool is_signed(DType dtype) { return dtype == DType::kI8 || dtype == DType::kI4 || dtype == DType::kI32; }
bool is_four_bits(DType dtype) { return dtype == DType::kU4 || dtype == DType::kI4; }

int default_zero_point(const QuantSource& source) {
  if (is_signed(source.codes.dtype)) return 0;
  return is_four_bits(source.codes.dtype) ? 8 : 128;
}

bool zero_points_matter(const QuantSource& source) {
  if (source.zero_points.data == nullptr) return false;
  const int neutral = is_signed(source.codes.dtype) ? 0 : is_four_bits(source.codes.dtype) ? 8 : 128;
  const int64_t n_blocks = source.zero_points.k_stride == 0 ? 1 : (source.k + source.block - 1) / source.block;
  const int64_t n = source.zero_points.n_stride == 0 ? 1 : source.n;
  for (int64_t column = 0; column < n; ++column)
    for (int64_t b = 0; b < n_blocks; ++b)
      if (code_at(source.zero_points, b, column) != neutral) return true;
  return false;
}

// The block of the layout: the source's, or, where all of k shares a scale, one long enough for scales to weigh little.
int layout_block(const QuantSource& source) {
  const bool one_scale = source.block >= source.k || (source.scales.k_stride == 0 && source.zero_points.k_stride == 0);
  if (one_scale) return source.k >= 128 ? 128 : 32;
  const bool power_of_two = (source.block & (source.block - 1)) == 0;
  if (power_of_two && source.block >= 16) return static_cast<int>(std::min<int64_t>(source.block, 512));
  throw Error(Code::kUnsupported, fmt::format("quantized weights in blocks of {}; the kernels take powers of two from 16 on, so these have "
                                              "to be converted to floats",
                                              source.block));
}

}  // namespace

QuantSource nbits_source(const NBitsTensors& t) {
  const int64_t n_blocks = (t.k + t.block - 1) / t.block;
  const DType codes = t.bits == 4 ? DType::kU4 : DType::kU8;
  const int64_t zero_points_row = t.bits == 4 ? (n_blocks + 1) / 2 * 2 : n_blocks;
  QuantSource s{.k = t.k, .n = t.n, .block = t.block};
  s.codes = {t.codes, codes, 1, n_blocks * t.block};
  s.scales = {t.scales, t.scales_dtype, 1, n_blocks};
  if (t.zero_points != nullptr) s.zero_points = {t.zero_points, codes, 1, zero_points_row};
  return s;
}

int code_at(const CodeArray& array, int64_t k, int64_t n) {
  const int64_t i = k * array.k_stride + n * array.n_stride;
  switch (array.dtype) {
    case DType::kI8: return as<int8_t>(array.data)[i];
    case DType::kI32: return as<int32_t>(array.data)[i];
    case DType::kU4: return (as<uint8_t>(array.data)[i / 2] >> (i % 2 * 4)) & 15;
    case DType::kI4: return (((as<uint8_t>(array.data)[i / 2] >> (i % 2 * 4)) & 15) ^ 8) - 8;
    default: return as<uint8_t>(array.data)[i];
  }
}

float scale_at(const ScaleArray& array, int64_t k, int64_t n) {
  const int64_t i = k * array.k_stride + n * array.n_stride;
  switch (array.dtype) {
    case DType::kF16: return as<Half>(array.data)[i];
    case DType::kBF16: return as<BFloat16>(array.data)[i];
    default: return as<float>(array.data)[i];
  }
}

int zero_point_at(const QuantSource& source, int64_t block, int64_t n) {
  return source.zero_points.data == nullptr ? default_zero_point(source) : code_at(source.zero_points, block, n);
}

void read_column(const FloatSource& source, int64_t n, int64_t first, int64_t count, float* out) {
  const int64_t step = source.n_major ? 1 : source.n;
  const int64_t at = source.n_major ? n * source.k + first : first * source.n + n;
  const bool contiguous = step == 1;
  switch (source.dtype) {
    case DType::kF16:
      if (contiguous) return fastest().f16_to_f32(as<Half>(source.data) + at, out, count);
      for (int64_t i = 0; i < count; ++i) out[i] = as<Half>(source.data)[at + i * step];
      return;
    case DType::kBF16:
      if (contiguous) return fastest().bf16_to_f32(as<BFloat16>(source.data) + at, out, count);
      for (int64_t i = 0; i < count; ++i) out[i] = as<BFloat16>(source.data)[at + i * step];
      return;
    case DType::kF64:
      for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(as<double>(source.data)[at + i * step]);
      return;
    default:
      for (int64_t i = 0; i < count; ++i) out[i] = as<float>(source.data)[at + i * step];
      return;
  }
}

void read_column(const QuantSource& source, int64_t n, float* out) {
  for (int64_t begin = 0; begin < source.k; begin += source.block) {
    const int64_t b = begin / source.block, end = std::min(begin + source.block, source.k);
    const float scale = scale_at(source.scales, b, n);
    const int zero_point = zero_point_at(source, b, n);
    for (int64_t k = begin; k < end; ++k) out[k] = static_cast<float>(code_at(source.codes, k, n) - zero_point) * scale;
  }
}

WeightLayout layout_for(const QuantSource& source) {
  const bool zero_points = zero_points_matter(source);
  const int block = layout_block(source);
  const bool half_scales = source.scales.dtype == DType::kF16 && !zero_points && block >= 32;
  return block_layout({.bits = is_four_bits(source.codes.dtype) ? 4 : 8,
                       .block = block,
                       .scales = half_scales ? ScaleFormat::kF16 : ScaleFormat::kF32,
                       .zero_points = zero_points},
                      source.k, source.n);
}

}  // namespace kvik::cpu
