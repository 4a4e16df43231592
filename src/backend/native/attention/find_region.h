#pragma once

#include "backend/native/attention/find_roundings.h"

namespace kvik::native {

// The nodes between the product of queries and keys and the product of weights and values.
struct Region {
  const onnx::Node* query_key = nullptr;
  const onnx::Node* weights_values = nullptr;
  int query_input = 0;    // of query_key; the keys are the other one
  int weights_input = 0;  // of weights_values; the values are the other one

  onnx::ValueId product = onnx::kNoValue;      // output of query_key
  onnx::ValueId scores = onnx::kNoValue;       // its value after the last rounding
  onnx::ValueId softmax_in = onnx::kNoValue;   // kNoValue if the softmax is written as primitive nodes
  onnx::ValueId softmax_out = onnx::kNoValue;  // the same
  onnx::ValueId weights = onnx::kNoValue;      // the operand multiplied with the values

  Symbol keys = Symbol::kTotal;       // or kSource
  Symbol softmaxed = Symbol::kTotal;  // the axis of softmax_in: keys, or kTotalAndSink
  int64_t n_heads = 0;
  std::vector<ScoreRounding> score_roundings, weight_roundings;  // from product to scores, and from softmax_out to weights

  bool softmax_expanded() const { return softmax_in == onnx::kNoValue; }
  onnx::ValueId q() const { return query_key->inputs[static_cast<size_t>(query_input)]; }
  onnx::ValueId k() const { return query_key->inputs[static_cast<size_t>(1 - query_input)]; }
  onnx::ValueId v() const { return weights_values->inputs[static_cast<size_t>(1 - weights_input)]; }
};

// Walks back from the weights over scores. Refuses, naming `product`.
Expected<Region> find_region(const AttentionContext& context, const onnx::Node& product, int weights_input);

}  // namespace kvik::native
