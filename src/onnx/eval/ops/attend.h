#pragma once

#include <functional>
#include <span>
#include <vector>

#include "onnx/eval/kernel.h"

// Scaled dot-product attention, shared by all attention operators.
namespace kvik::onnx {

// Vectors by batch, head and position: [batch, heads, length, size].
struct Heads {
  int64_t batch = 0, heads = 0, length = 0, size = 0;
  std::vector<double> data;

  Heads() = default;
  Heads(int64_t n_batch, int64_t n_heads, int64_t n_length, int64_t n_size);  // zeros; throws Error(kTooLarge)

  std::span<double> row(int64_t b, int64_t h, int64_t i) { return {data.data() + offset(b, h, i), static_cast<size_t>(size)}; }
  std::span<const double> row(int64_t b, int64_t h, int64_t i) const { return {data.data() + offset(b, h, i), static_cast<size_t>(size)}; }

 private:
  size_t offset(int64_t b, int64_t h, int64_t i) const { return static_cast<size_t>(((b * heads + h) * length + i) * size); }
};

// Calls f(b, h, i) for every row; for none if the tensor has no elements, however large its other sizes are.
template <class F>
void for_rows(const Heads& heads, F&& f) {
  if (heads.data.empty()) return;
  for (int64_t b = 0; b < heads.batch; ++b) {
    for (int64_t h = 0; h < heads.heads; ++h) {
      for (int64_t i = 0; i < heads.length; ++i) f(b, h, i);
    }
  }
}

// From [batch, heads, length, size].
Heads heads_of_4d(const Tensor& tensor, std::string_view name);
// From [batch, length, n_heads * size].
Heads heads_of_3d(const Tensor& tensor, int64_t n_heads, std::string_view name);
Tensor tensor_4d(DType dtype, const Heads& heads);
Tensor tensor_3d(DType dtype, const Heads& heads);

// `first` followed by `second` along the length; throws Error(kBadModel) if the other sizes differ.
Heads joined(const Heads& first, const Heads& second, std::string_view names);

struct AttendOptions {
  Work work;  // budget for the products
  double scale = 1;
  double softcap = 0;  // 0: none
  // Changes the scores of query i after scaling and capping: adds biases, sets masked keys to -infinity.
  std::function<void(int64_t b, int64_t h, int64_t i, std::span<double> scores)> mask;
  std::vector<double> sinks;  // attention sinks, one logit per query head; or empty
  // Called with the scores of each query at each stage.
  enum class Stage { kScaled, kCapped, kMasked, kProbabilities };
  std::function<void(Stage stage, int64_t b, int64_t h, int64_t i, std::span<double> scores)> watch;
};

// [batch, q.heads, q.length, v.size]. Query head h reads key head h / (q.heads / k.heads). A query that attends to no key gives zeros.
Heads attend(const Heads& q, const Heads& k, const Heads& v, const AttendOptions& options);

// Softmax in place; a row of only -infinity becomes zeros. `sink` is null or an additional logit.
void softmax(std::span<double> scores, const double* sink = nullptr);

// An additive bias of shape [batch or 1, heads or 1, queries, keys].
class AttentionBias {
 public:
  AttentionBias() = default;
  AttentionBias(const Tensor& tensor, const Heads& q, int64_t n_keys);
  void add_to(int64_t b, int64_t h, int64_t i, std::span<double> scores) const;

 private:
  std::vector<double> data_;
  Dims dims_;
};

}  // namespace kvik::onnx
