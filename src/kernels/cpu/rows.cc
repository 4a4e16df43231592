#include "kernels/cpu/rows.h"

namespace kvik::cpu {
namespace {

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Arrays laid one after another in a block of memory, each on a 64-byte boundary; without memory, only measured.
class Carver {
 public:
  explicit Carver(std::byte* memory) : memory_(memory) {}
  template <class T>
  T* take(int64_t count) {
    T* array = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
    used_ += round_up(count * static_cast<int64_t>(sizeof(T)), 64);
    return array;
  }
  size_t used_bytes() const { return static_cast<size_t>(used_); }

 private:
  std::byte* memory_;
  int64_t used_ = 0;
};

QuantizedRows carve_quantized(Carver& carver, int64_t n_rows, int64_t k, int64_t part) {
  QuantizedRows r{.n_rows = n_rows, .k = k, .n_steps = round_up(k, 64) / 32, .part = part};
  r.n_blocks = round_up(32 * r.n_steps, kRowBlock) / kRowBlock;
  r.n_parts = round_up(32 * r.n_steps, part) / part;
  r.q = carver.take<int8_t>(n_rows * r.n_steps * 32);
  r.scale = carver.take<float>(n_rows * r.n_blocks);
  r.sum = carver.take<int32_t>(n_rows * r.n_parts);
  return r;
}

ByteRows carve_bytes(Carver& carver, int64_t n_rows, int64_t k) {
  ByteRows r{.n_rows = n_rows, .k = k, .stride = round_up(k, 64)};
  r.q = carver.take<int8_t>(n_rows * r.stride);
  r.scale = carver.take<float>(n_rows);
  r.zero_point = carver.take<int32_t>(n_rows);
  r.sum = carver.take<int32_t>(n_rows);
  return r;
}

}  // namespace

FloatRows rows_from(const FloatRows& rows, int64_t first, int64_t n_rows) { return {rows.data + first * rows.stride, rows.stride, n_rows}; }

size_t quantized_bytes(int64_t n_rows, int64_t k) {
  Carver carver(nullptr);
  carve_quantized(carver, n_rows, k, 16);
  return carver.used_bytes();
}

QuantizedRows quantized_rows(std::byte* memory, int64_t n_rows, int64_t k, int64_t part) {
  Carver carver(memory);
  return carve_quantized(carver, n_rows, k, part);
}

QuantizedRows rows_from(const QuantizedRows& rows, int64_t first, int64_t n_rows) {
  QuantizedRows r = rows;
  r.n_rows = n_rows;
  r.q += first * rows.n_steps * 32;
  r.scale += first * rows.n_blocks;
  r.sum += first * rows.n_parts;
  return r;
}

size_t byte_rows_bytes(int64_t n_rows, int64_t k) {
  Carver carver(nullptr);
  carve_bytes(carver, n_rows, k);
  return carver.used_bytes();
}

ByteRows byte_rows(std::byte* memory, int64_t n_rows, int64_t k) {
  Carver carver(memory);
  return carve_bytes(carver, n_rows, k);
}

ByteRows rows_from(const ByteRows& rows, int64_t first, int64_t n_rows) {
  ByteRows r = rows;
  r.n_rows = n_rows;
  r.q += first * rows.stride;
  r.scale += first;
  r.zero_point += first;
  r.sum += first;
  return r;
}

}  // namespace kvik::cpu
