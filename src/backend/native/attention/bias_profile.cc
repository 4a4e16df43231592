#include "backend/native/attention/bias_profile.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace kvik::native {
namespace {

constexpr float kRounding = 4e-7f;  // of a difference of two numbers, each a few roundings old, relative to the larger

// Any bias below the threshold hides its key, so all of them are equal.
bool agree(float a, float b, float tolerance) {
  if (a < kHidden && b < kHidden) return true;
  return std::abs(a - b) <= tolerance + 1e-4f * std::abs(a);
}

}  // namespace

Expected<Reference> reference_of(const onnx::Node& node, int64_t position, int64_t n_keys, const Scores& scores) {
  Reference reference;
  std::vector<float> largest(static_cast<size_t>(scores.heads));
  for (int64_t q = 0; q < scores.rows; ++q) {
    for (int64_t h = 0; h < scores.heads; ++h) {
      float most = -std::numeric_limits<float>::infinity();
      for (int64_t k = 0; k < n_keys; ++k) {
        if (std::isnan(scores.at(0, q, k, h))) return refuse(node, "its mask makes scores NaN");
        most = std::max(most, scores.at(0, q, k, h));
      }
      if (!std::isfinite(most)) return refuse(node, "its mask hides every key from some row");
      largest[static_cast<size_t>(h)] = most;
    }
    const auto seen = [&](int64_t k) {
      for (int64_t h = 0; h < scores.heads; ++h) {
        if (!(scores.at(0, q, k, h) > largest[static_cast<size_t>(h)] + kHidden)) return false;
      }
      return true;
    };
    int64_t key = position < 0 ? 0 : position + q;
    if (!seen(key)) {
      for (key = 0; key < n_keys && !seen(key);) ++key;
    }
    if (key == n_keys) return refuse(node, "there is a row with no key that all heads see");
    reference.key.push_back(key);
  }
  return reference;
}

bool BiasProfile::observe(int64_t distance, int64_t head, float bias, float tolerance) {
  Side& side = distance >= 0 ? behind_ : ahead_;
  const int64_t at = distance >= 0 ? distance : -distance - 1;
  if (at >= side.count) {
    side.count = at + 1;
    side.bias.resize(static_cast<size_t>(side.count * n_heads_), std::nanf(""));
  }
  float& known = side.bias[static_cast<size_t>(at * n_heads_ + head)];
  if (std::isnan(known)) known = bias;
  return agree(known, bias, tolerance);
}

std::optional<int64_t> BiasProfile::add(int64_t position, int64_t n_keys, const Scores& scores, const Reference& reference) {
  for (int64_t q = 0; q < scores.rows; ++q) {
    const int64_t own = reference.key[static_cast<size_t>(q)];
    // The far end first, so that the arrays grow once.
    for (int64_t k = 0; k < n_keys; ++k) {
      const int64_t distance = position + q - k;
      for (int64_t h = 0; h < n_heads_; ++h) {
        const float y = scores.at(0, q, k, h), from = scores.at(0, q, own, h), bias = y - from;
        const float noise = bias < kHidden ? 0 : kRounding * std::max(std::abs(y), std::abs(from));
        noise_ = std::max(noise_, noise);
        if (!observe(distance, h, bias, 2e-4f + noise)) return distance;
      }
    }
  }
  return {};
}

float BiasProfile::bias(int64_t distance, int64_t head) const {
  const Side& side = distance >= 0 ? behind_ : ahead_;
  const int64_t at = distance >= 0 ? distance : -distance - 1;
  return side.bias[static_cast<size_t>(at * n_heads_ + head)];
}

Expected<> BiasProfile::require_no_gaps() const {
  for (const Side* side : {&behind_, &ahead_}) {
    for (const float bias : side->bias) {
      if (std::isnan(bias)) return refuse("some distances between a query and a key were never probed");
    }
  }
  return {};
}

}  // namespace kvik::native
