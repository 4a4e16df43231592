#pragma once

#include "backend/native/attention/probe_mask.h"

namespace kvik::native {

// An attention operator according to its definition: the meaning of its inputs and attributes.
struct OperatorDefinition {
  const onnx::Node& node;
  onnx::ValueId query = onnx::kNoValue, key = onnx::kNoValue, value = onnx::kNoValue;
  int mask = -1;                       // input with the bias that is added to scores (or, if bool, a mask of visible keys); -1: none
  int past_key = -1, past_value = -1;  // inputs, if it appends to the past itself
  int valid_keys = -1;                 // input with the number of keys of each batch entry; queries are the last of them
  bool mask_may_be_short = false;      // keys beyond the end of the mask are hidden; otherwise a single column applies to all keys

  int64_t n_heads = 0, n_kv_heads = 0, key_dim = 0, value_dim = 0;
  ScoreFunction function;
  bool causal = false;
  bool by_position = false;       // queries are counted from the past of the sequence, else from the operator's own past input
  int64_t left = -1, right = -1;  // keys seen before and after a query's own; -1: all
  std::vector<float> sinks;

  onnx::ValueId input(int i) const {
    return i >= 0 && i < static_cast<int>(node.inputs.size()) ? node.inputs[static_cast<size_t>(i)] : onnx::kNoValue;
  }
  bool appends() const { return past_key >= 0; }
};

// Refuses an operator, attribute or input that is not covered.
Expected<OperatorDefinition> operator_definition(const AttentionContext& context, const onnx::Node& node);

// Scores by the definition; masks are evaluated.
class OperatorScores : public ScoreSource {
 public:
  OperatorScores(const AttentionContext& context, const OperatorDefinition& definition, Symbol keys)
      : context_(context), definition_(definition), keys_(keys) {}

  Expected<Evaluated<Scores>> softmax_input(const Sizes& sizes, std::span<const float> x) override {
    return scores_of(sizes, 0, sizes.fresh, x);
  }
  Expected<Evaluated<Scores>> softmax_input_of_row(int64_t total, int64_t position, std::span<const float> x) override;
  int64_t n_keys(const Sizes& sizes) const override { return sizes.of(factor(keys_)); }

 private:
  // For rows first … first + n - 1 of those computed at these sizes.
  Expected<Evaluated<Scores>> scores_of(const Sizes& sizes, int64_t first, int64_t n, std::span<const float> x);
  Expected<Evaluated<Scores>> with_mask(const Sizes& sizes, int64_t first, Scores scores);
  void hide_by_position(const Sizes& sizes, int64_t first, Scores& scores);

  const AttentionContext& context_;
  const OperatorDefinition& definition_;
  Symbol keys_;
};

}  // namespace kvik::native
