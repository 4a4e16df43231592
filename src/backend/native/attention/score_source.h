#pragma once

#include "backend/native/attention/find_region.h"

namespace kvik::native {

// Numbers for each batch entry, query row, key and head.
struct Scores {
  int64_t batch = 0, rows = 0, keys = 0, heads = 0;
  std::vector<float> data;

  float at(int64_t b, int64_t q, int64_t k, int64_t h) const { return data[static_cast<size_t>(((b * rows + q) * keys + k) * heads + h)]; }
  float& at(int64_t b, int64_t q, int64_t k, int64_t h) { return data[static_cast<size_t>(((b * rows + q) * keys + k) * heads + h)]; }
};

// The key relative to which a row's biases are measured, because softmax is invariant to a constant added to the whole row.
struct Reference {
  std::vector<int64_t> key;  // [rows]: the row's own position if it is visible, else the first key that all heads see
};

// Evaluates the scores of an attention for chosen products. `x` is the product of queries and keys [rows, keys], the same in every head and
// batch entry; a single number is broadcast. May refuse.
class ScoreSource {
 public:
  virtual ~ScoreSource() = default;
  // The softmax's input, up to a constant per row; with one more key than there are if there is a sink.
  virtual Expected<Evaluated<Scores>> softmax_input(const Sizes& sizes, std::span<const float> x) = 0;
  // Only for the row at `position`, among `total` positions; `x` is [keys] or one number.
  virtual Expected<Evaluated<Scores>> softmax_input_of_row(int64_t total, int64_t position, std::span<const float> x) = 0;
  virtual int64_t n_keys(const Sizes& sizes) const = 0;  // without a sink
};

// By evaluating the nodes between the two products.
class RegionScores : public ScoreSource {
 public:
  RegionScores(const AttentionContext& context, const Region& region) : context_(context), region_(region) {}

  Expected<Evaluated<Scores>> softmax_input(const Sizes& sizes, std::span<const float> x) override;
  Expected<Evaluated<Scores>> softmax_input_of_row(int64_t total, int64_t position, std::span<const float> x) override;
  int64_t n_keys(const Sizes& sizes) const override { return sizes.of(factor(region_.keys)); }

  // Refuses weights that are not the softmax, rounded as in the region (guards against NaN are ignored).
  Expected<> require_untouched_weights(const Sizes& sizes);

  // The factor of scores before each rounding. Refuses any other operation there.
  Expected<std::vector<float>> factors_before_roundings(const Sizes& sizes);

 private:
  Expected<> require_same(onnx::ValueId from, onnx::ValueId to, const Sizes& sizes);
  Expected<float> factor_between(onnx::ValueId from, onnx::ValueId to, const Sizes& sizes);
  Expected<> require_numbers(onnx::ValueId from, onnx::ValueId to);
  Symbol keys_of(onnx::ValueId id) const;
  onnx::ValueId wanted() const { return region_.softmax_expanded() ? region_.weights : region_.softmax_in; }
  Expected<Evaluated<Scores>> arranged(const Expected<Evaluated<Tensor>>& evaluation, const Sizes& sizes) const;

  const AttentionContext& context_;
  const Region& region_;
};

}  // namespace kvik::native
