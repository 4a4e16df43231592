#pragma once

#include <functional>
#include <optional>

#include "backend/native/attention/score_source.h"

namespace kvik::native {

// The function of the product of a query and a key, before biases: scale * x, or cap * tanh(scale * x / cap).
struct ScoreFunction {
  float scale = 1;
  float cap = 0;  // 0: linear

  float operator()(float x) const;
};

// The observations at one size: the softmax's input for products of zero, and the source to evaluate others.
struct ScoreProbe {
  const Scores& scores;
  const Reference& reference;
  int64_t n_keys;
  std::function<Expected<Scores>(std::span<const float> x)> ask;
};

// Probes how the scores of visible keys depend on products; nullopt if no row sees a key other than its reference. Refuses if keys respond
// differently, or not as a known function.
Expected<std::optional<ScoreFunction>> score_function(const onnx::Node& node, const ScoreProbe& rest);

// Refuses if a response at this size differs from the function.
Expected<> require_response(const onnx::Node& node, const ScoreProbe& rest, const ScoreFunction& function);

bool same_function(const ScoreFunction& a, const ScoreFunction& b);

}  // namespace kvik::native
