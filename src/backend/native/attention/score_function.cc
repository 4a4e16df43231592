#include "backend/native/attention/score_function.h"

#include <algorithm>
#include <cmath>

#include "backend/native/attention/bias_profile.h"

namespace kvik::native {
namespace {

// The response of all visible keys to a product of `x` everywhere except at the row's reference key, where it is 0.
struct Responses {
  std::vector<float> values;
  float noise = 0;

  float median() const {
    std::vector<float> sorted = values;
    const auto middle = sorted.begin() + static_cast<int64_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }

  bool are(float expected, float relative) const {
    const float tolerance = relative * std::abs(expected) + 1e-5f + noise;
    return std::all_of(values.begin(), values.end(), [&](float value) { return std::abs(value - expected) <= tolerance; });
  }
};

Expected<Responses> respond(const ScoreProbe& rest, float x) {
  const int64_t rows = rest.scores.rows, keys = rest.n_keys;
  std::vector<float> products(static_cast<size_t>(rows * keys), x);
  for (int64_t q = 0; q < rows; ++q) products[static_cast<size_t>(q * keys + rest.reference.key[static_cast<size_t>(q)])] = 0;
  KVIK_TRY(const Scores scores, rest.ask(products));
  Responses result;
  for (int64_t q = 0; q < rows; ++q) {
    const int64_t own = rest.reference.key[static_cast<size_t>(q)];
    for (int64_t k = 0; k < keys; ++k) {
      for (int64_t h = 0; h < scores.heads; ++h) {
        const float still = rest.scores.at(0, q, k, h) - rest.scores.at(0, q, own, h);
        if (k == own || still < kHidden) continue;
        const float y = scores.at(0, q, k, h), from = scores.at(0, q, own, h);
        result.values.push_back(y - from - still);
        result.noise = std::max({result.noise, 1e-6f * std::abs(y), 1e-6f * std::abs(from)});
      }
    }
  }
  return result;
}

}  // namespace

float ScoreFunction::operator()(float x) const { return cap == 0 ? scale * x : cap * std::tanh(scale * x / cap); }

Expected<std::optional<ScoreFunction>> score_function(const onnx::Node& node, const ScoreProbe& rest) {
  KVIK_TRY(const Responses far, respond(rest, 30));
  if (far.values.empty()) return std::nullopt;
  KVIK_TRY(const Responses one, respond(rest, 1));
  KVIK_TRY(const Responses back, respond(rest, -2));
  const ScoreFunction linear = {.scale = far.median() / 30};
  if (far.are(linear(30), 1e-4f) && one.are(linear(1), 1e-4f) && back.are(linear(-2), 1e-4f)) return linear;

  KVIK_TRY(const Responses saturated, respond(rest, 1e7f));
  KVIK_TRY(const Responses near, respond(rest, 1e-2f));
  const float cap = saturated.median();
  const ScoreFunction capped = {.scale = near.median() * 100, .cap = cap};
  if (cap > 0 && far.are(capped(30), 2e-3f) && one.are(capped(1), 2e-3f) && back.are(capped(-2), 2e-3f)) return capped;
  return refuse(node,
                "scores are neither a multiple of the product of query and key nor a soft cap of it, the same for every head and key");
}

Expected<> require_response(const onnx::Node& node, const ScoreProbe& rest, const ScoreFunction& function) {
  KVIK_TRY(const Responses one, respond(rest, 1));
  if (!one.are(function(1), 1e-3f)) return refuse(node, "the scale of its scores depends on the number of tokens");
  return {};
}

bool same_function(const ScoreFunction& a, const ScoreFunction& b) {
  return std::abs(a.scale - b.scale) <= 1e-3f * std::abs(a.scale) + 1e-6f && std::abs(a.cap - b.cap) <= 1e-2f * std::abs(a.cap);
}

}  // namespace kvik::native
