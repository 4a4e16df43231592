#pragma once

#include "kernels/cpu/body/declarations.h"
#include "kernels/cpu/body/quantize.h"

// Rows from one type to another.
namespace kvik::cpu::KVIK_ISA {

// One block of n values, and the sums of its parts. Values beyond these are zeros, those beyond the row's last step are not stored.
template <int kPartVectors>
KVIK_INLINE void quantize_block(const float* x, int64_t n, const QuantizedRows& rows, int64_t row, int64_t block) {
  constexpr int kVectors = kRowBlock / kLanes;
  const int64_t first = block * kVectors, n_vectors = rows.n_steps * 2 - first;
  F values[kVectors];
  F most = zero();
  bool finite = true;
  KVIK_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    values[i] = row_vector(x, n, i);
    const F a = magnitude(values[i]);
    finite = finite && all(less_equal(a, bcast(kLargestFloat)));
    most = max(most, a);
  }
  const Quantization how = quantization_of(most, finite);
  rows.scale[row * rows.n_blocks + block] = how.scale;
  int8_t* q = rows.q + row * rows.n_steps * 32 + first * kLanes;
  int32_t* sums = rows.sum + row * rows.n_parts;
  I sum = ibcast(0);
  KVIK_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    const I v = finite ? to_int(mul(values[i], how.inverse)) : ibcast(0);
    if (i < n_vectors) store_i8(q + i * kLanes, v);
    sum = iadd(sum, v);
    if ((i + 1) % kPartVectors != 0) continue;
    const int64_t part = (first + i) / kPartVectors;
    if (part < rows.n_parts) sums[part] = reduce_add(sum);
    sum = ibcast(0);
  }
}

// values_of(first, n): values [first, first + n) of the row, in increasing order of `first`.
template <int kPartVectors, class ValuesOf>
KVIK_INLINE void quantize_blocks(const QuantizedRows& rows, int64_t row, ValuesOf values_of) {
  for (int64_t block = 0; block < rows.n_blocks; ++block) {
    const int64_t first = block * kRowBlock, left = rows.k - first, n = left < kRowBlock ? left : kRowBlock;
    quantize_block<kPartVectors>(values_of(first, n), n, rows, row, block);
  }
}

template <class ValuesOf>
KVIK_INLINE void quantize_values(const QuantizedRows& rows, int64_t row, ValuesOf values_of) {
  switch (rows.part) {
    case 16: return quantize_blocks<1>(rows, row, values_of);
    case 32: return quantize_blocks<2>(rows, row, values_of);
    case 64: return quantize_blocks<4>(rows, row, values_of);
    default: return quantize_blocks<8>(rows, row, values_of);
  }
}

void quantize_row(const float* x, const QuantizedRows& rows, int64_t row) {
  quantize_values(rows, row, [&](int64_t first, int64_t) { return x + first; });
}

void quantize_gated_row(Unary op, const float* a, const float* b, const QuantizedRows& rows, int64_t row) {
  constexpr int64_t kAhead = 2 * kRowBlock;  // both operands are long: most of them has left the nearest caches
  alignas(64) float gated[kRowBlock];
  quantize_values(rows, row, [&](int64_t first, int64_t n) {
    for (int64_t i = first + kAhead; i < first + kAhead + kRowBlock; i += kLanes) {
      prefetch(a + i);
      prefetch(b + i);
    }
    gate(op, a + first, b + first, gated, n);
    return static_cast<const float*>(gated);
  });
}

void quantize_bytes_row(const float* x, const ByteRows& rows, int64_t row) {
  const Extent extent = extent_of(x, rows.k);
  const float range = extent.high - extent.low;
  const bool live = extent.finite && range >= 1e-30f;  // below it the scale may be zero
  const bool fixed = rows.fixed_scale > 0.0f;
  const float scale = fixed ? rows.fixed_scale : live ? range / 255.0f : 1.0f;
  const float exact = fixed ? static_cast<float>(rows.fixed_zero_point) : live ? -extent.low / scale : 0.0f;
  const F zero_point = round_even(min(max(bcast(exact), zero()), bcast(255.0f)));
  const I shift = isub(to_int(zero_point), ibcast(128));
  const F divisor = bcast(scale);
  int8_t* q = rows.q + row * rows.stride;
  int32_t sum = 0;
  for (int64_t i = 0; i * kLanes < rows.stride; ++i) {
    const int64_t left = rows.k - i * kLanes;
    if (left <= 0 || !extent.finite) {
      memset(q + i * kLanes, 0, kLanes);
      continue;
    }
    const F steps = round_even(div(row_vector(x, rows.k, i), divisor));
    const F code = min(max(add(steps, zero_point), zero()), bcast(255.0f));
    store_i8(q + i * kLanes, isub(to_int(code), ibcast(128)));
    for (int64_t j = left; j < kLanes; ++j) q[i * kLanes + j] = 0;
    for (int64_t j = 0; j < kLanes; ++j) sum += q[i * kLanes + j];
  }
  int32_t shifts[kLanes];
  memcpy(shifts, &shift, sizeof shifts);
  rows.scale[row] = extent.finite ? scale : __builtin_nanf("");
  rows.zero_point[row] = shifts[0] + 128;
  rows.sum[row] = sum;
}

template <class From>
KVIK_INLINE void widen(const From* x, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, load(x + i));
  if (i == n) return;
  From lanes[kLanes];
  memset(static_cast<void*>(lanes), 0, sizeof lanes);
  memcpy(static_cast<void*>(lanes), x + i, static_cast<size_t>(n - i) * sizeof(From));
  store_n(y + i, load(lanes), static_cast<int>(n - i));
}

void f16_to_f32(const Half* x, float* y, int64_t n) { widen(x, y, n); }
void bf16_to_f32(const BFloat16* x, float* y, int64_t n) { widen(x, y, n); }

void f32_to_f16(const float* x, Half* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, load(x + i));
  if (i == n) return;
  Half lanes[kLanes];
  store(lanes, load_n(x + i, static_cast<int>(n - i)));
  memcpy(static_cast<void*>(y + i), lanes, static_cast<size_t>(n - i) * sizeof(Half));
}

uint64_t read_bytes(const std::byte* p, int64_t n) {
  I sums[8];
  for (I& s : sums) s = ibcast(0);
  int64_t i = 0;
  for (; i + 512 <= n; i += 512)
    for (int64_t j = 0; j < 8; ++j) sums[j] = ixor(sums[j], iload(p + i + j * 64));
  for (; i < n; i += 64) sums[0] = ixor(sums[0], iload(p + i));
  for (int j = 1; j < 8; ++j) sums[0] = ixor(sums[0], sums[j]);
  uint64_t words[8], all = 0;
  memcpy(words, &sums[0], sizeof words);
  for (uint64_t w : words) all ^= w;
  return all;
}

}  // namespace kvik::cpu::KVIK_ISA
