#include "backend/native/execute/cpu/cpu_output.h"

#include <algorithm>
#include <cstring>

namespace kvik::native {

bool CpuOutput::finds(std::span<const int32_t> n_candidates) {
  // Greedy search wants a few, in case that an option rules out the largest. That is rare, and more than the largest would rarely be few.
  constexpr int32_t kFew = 4;
  return !n_candidates.empty() && std::ranges::all_of(n_candidates, [](int32_t n) { return n > 0 && n <= kFew; });
}

void CpuOutput::reserve(int64_t n_rows) {
  const auto n = static_cast<size_t>(n_rows);
  is_computed_.assign(n, false);
  errors_.resize(n);
  if (found_.size() < n) found_.resize(n);
  grow(x_, n_rows * head_->k() * int64_t{sizeof(float)});
  grow(values_, n_rows * head_->padded_n() * int64_t{sizeof(float)});
  grow(quantized_, static_cast<int64_t>(head_->quantized_bytes(n_rows)));
  grow(maxima_, n_rows * head_->n_panels() * int64_t{sizeof(float)});
}

void CpuOutput::take(ThreadPool& pool, const cpu::FloatRows& x, int64_t first) {
  const auto k = static_cast<size_t>(head_->k());
  for (int64_t i = 0; i < x.n_rows; ++i) std::memcpy(x_of(first + i), x.data + i * x.stride, k * sizeof(float));
  const auto from = static_cast<size_t>(first), n_rows = static_cast<size_t>(x.n_rows);
  float* const maxima = maxima_.as<float>() + first * head_->n_panels();
  head_->approximate(pool, x, {maxima, quantized_.data() + head_->quantized_bytes(first), std::span(errors_).subspan(from, n_rows)});
  pool.for_each(x.n_rows, [&](int64_t i) {
    const size_t row = from + static_cast<size_t>(i);
    const std::span<const float> own(maxima + i * head_->n_panels(), static_cast<size_t>(head_->n_panels()));
    head_->find_largest({x_of(first + i), own, errors_[row]}, found_[row]);
  });
}

std::span<const float> CpuOutput::row(int row) {
  const std::lock_guard lock(mutex_);
  const auto i = static_cast<size_t>(row);
  if (!is_computed_[i]) head_->multiply(x_of(row), values_of(row));
  is_computed_[i] = true;
  return {values_of(row), static_cast<size_t>(head_->n())};
}

}  // namespace kvik::native
