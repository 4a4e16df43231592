#pragma once

#include <mutex>
#include <vector>

#include "backend/native/execute/cpu/approximate_head.h"
#include "backend/native/execute/execute.h"

namespace kvik::native {

// Rows of logits of which only the largest has been computed. The others are when somebody reads the row.
class CpuOutput final : public OutputRows {
 public:
  explicit CpuOutput(std::shared_ptr<const ApproximateHead> head) : head_(std::move(head)) {}

  // Whether the largest logit of each row is probably all that is read.
  static bool finds(std::span<const int32_t> n_candidates);

  const std::shared_ptr<const ApproximateHead>& head() const { return head_; }
  void reserve(int64_t n_rows);  // of the next call
  // What the head multiplies, for rows from `first` on. Different threads may take different rows.
  void take(ThreadPool& pool, const cpu::FloatRows& x, int64_t first);

  std::span<const float> row(int row) override;
  std::span<const TokenLogit> candidates(int row) const override { return found_[static_cast<size_t>(row)]; }

 private:
  float* x_of(int64_t row) const { return x_.as<float>() + row * head_->k(); }
  float* values_of(int64_t row) const { return values_.as<float>() + row * head_->padded_n(); }

  const std::shared_ptr<const ApproximateHead> head_;
  AlignedBuffer x_;                             // [rows][k]
  AlignedBuffer values_;                        // [rows][padded n]: logits where is_computed_ says so; otherwise unused
  AlignedBuffer quantized_, maxima_;            // of all rows
  std::vector<float> errors_;                   // [row]
  std::vector<std::vector<TokenLogit>> found_;  // [row]; more rows than of this call
  std::mutex mutex_;                            // of logits that are computed when they are read
  std::vector<bool> is_computed_;               // [row]
};

}  // namespace kvik::native
