#pragma once

#include <functional>
#include <optional>

#include "backend/native/attention/score_source.h"

namespace kvik::native {

// What becomes of a product of a query and a key before biases: scale * x, or cap * tanh(scale * x / cap).
struct ScoreFunction {
  float scale = 1;
  float cap = 0;  // 0: linear

  float operator()(float x) const;
};

// What is known at one size: the softmax's input for products of zero, and whom to ask about others.
struct ScoreProbe {
  const Scores& scores;
  const Reference& reference;
  int64_t n_keys;
  std::function<Expected<Scores>(std::span<const float> x)> ask;
};

// Asks how the keys that are seen respond to products; nothing where no row sees another key than its reference. Refuses if
// they do not all respond alike, or in no known way.
Expected<std::optional<ScoreFunction>> score_function(const onnx::Node& node, const ScoreProbe& rest);

// Refuses if one response at this size is not what the function says.
Expected<> require_response(const onnx::Node& node, const ScoreProbe& rest, const ScoreFunction& function);

bool same_function(const ScoreFunction& a, const ScoreFunction& b);

}  // namespace kvik::native
