#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <set>

#include "backend/native/attention/probe_mask.h"

namespace kvik::native {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// The number of heads that do not see a distance.
enum class Seen { kByAll, kBySome, kByNone };

// The profile without keys that are only hidden by underflow.
class Shape {
 public:
  Shape(const BiasProfile& profile, float underflow) : profile_(profile), underflow_(underflow) { find_slopes(); }

  int64_t n_heads() const { return profile_.n_heads(); }
  const std::vector<float>& slopes() const { return slopes_; }

  Seen seen(int64_t distance) const {
    int64_t hidden = 0;
    for (int64_t h = 0; h < n_heads(); ++h) hidden += is_hidden(distance, h) ? 1 : 0;
    return hidden == 0 ? Seen::kByAll : hidden == n_heads() ? Seen::kByNone : Seen::kBySome;
  }

  float bias(int64_t distance, int64_t head) const { return is_hidden(distance, head) ? kNever : profile_.bias(distance, head); }

  bool has_no_bias(int64_t distance) const {
    for (int64_t h = 0; h < n_heads(); ++h) {
      if (!(std::abs(bias(distance, h)) <= 1e-5f + profile_.noise())) return false;
    }
    return true;
  }

  // Falls by the same amount from each key to the one before it.
  bool follows_slopes(int64_t distance) const {
    if (slopes_.empty()) return false;
    for (int64_t h = 0; h < n_heads(); ++h) {
      if (!is_on_slope(distance, h)) return false;
    }
    return true;
  }

  bool same(int64_t a, int64_t b) const {
    for (int64_t h = 0; h < n_heads(); ++h) {
      const float x = bias(a, h), y = bias(b, h);
      if (x != y && !(std::abs(x - y) <= 1e-6f + profile_.noise())) return false;
    }
    return true;
  }

 private:
  bool is_hidden(int64_t distance, int64_t head) const {
    return profile_.is_hidden(distance, head) && !(distance >= 0 && !slopes_.empty() && is_on_slope(distance, head));
  }

  bool is_on_slope(int64_t distance, int64_t head) const {
    const float expected = -slopes_[static_cast<size_t>(head)] * static_cast<float>(distance);
    const float found = profile_.bias(distance, head);
    if (expected < underflow_ && found < kHidden && found > 20 * kHidden) return true;  // a logarithm of nothing
    return std::abs(found - expected) <= 1e-4f + 1e-4f * std::abs(expected) + profile_.noise();
  }

  void find_slopes() {
    if (profile_.n_behind() < 4) return;
    for (int64_t h = 0; h < n_heads(); ++h) slopes_.push_back(-profile_.bias(3, h) / 3);
    const bool falls = std::any_of(slopes_.begin(), slopes_.end(), [](float slope) { return std::abs(slope) > 1e-5f; });
    const bool finite = std::all_of(slopes_.begin(), slopes_.end(), [](float slope) { return std::abs(slope) < -kHidden; });
    bool straight = falls && finite;
    for (int64_t d = 0; straight && d < 4; ++d) {
      for (int64_t h = 0; h < n_heads(); ++h) straight = straight && is_on_slope(d, h);
    }
    if (!straight) slopes_.clear();
  }

  const BiasProfile& profile_;
  float underflow_;
  std::vector<float> slopes_;
};

// The first distances from which no key is visible; `end` if there are none.
int64_t window_of(const Shape& shape, int64_t end) {
  while (end > 0 && shape.seen(end - 1) == Seen::kByNone) --end;
  return end;
}

bool all_distances(int64_t from, int64_t to, const std::function<bool(int64_t)>& holds) {
  for (int64_t d = from; d < to; ++d) {
    if (!holds(d)) return false;
  }
  return true;
}

// Biases at distances first … last, with each end as short as possible, because distances beyond it are clamped.
void make_table(const Shape& shape, int64_t first, int64_t last, MaskPattern& pattern, bool ends_are_final) {
  const int64_t from = first, to = last;
  while (last > std::max<int64_t>(first, 0) && shape.same(last, last - 1)) --last;
  while (first < std::min<int64_t>(last, 0) && shape.same(first, first + 1)) ++first;
  const bool saturates = (last < to || ends_are_final) && (first > from || from == 0);
  if (!saturates) {
    const int64_t proved = to + 1;
    pattern.limit = std::min(pattern.limit.value_or(proved), proved);
  }
  Attend& attend = pattern.attend;
  attend.first_distance = first;
  for (int64_t h = 0; h < shape.n_heads(); ++h) {
    for (int64_t d = first; d <= last; ++d) attend.distance_bias.push_back(shape.bias(d, h));
  }
}

std::string table_words(const Shape& shape, const Attend& attend) {
  const auto n = static_cast<int64_t>(attend.distance_bias.size()) / shape.n_heads();
  bool holes = false;
  std::set<std::vector<float>> distinct;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<float> column;
    for (int64_t h = 0; h < shape.n_heads(); ++h) column.push_back(attend.distance_bias[static_cast<size_t>(h * n + i)]);
    holes = holes || std::any_of(column.begin(), column.end(), [](float bias) { return bias == kNever; });
    distinct.insert(std::move(column));
  }
  if (holes) return fmt::format("some of {} distances", n);
  return fmt::format("relative table {} buckets", distinct.size());
}

Expected<> classify_causal(const Shape& shape, int64_t n_distances, MaskPattern& pattern, std::string& words) {
  Attend& attend = pattern.attend;
  int64_t end = window_of(shape, n_distances);
  if (end == 0) return refuse("no key is seen from any distance");
  // Where whole distances are left out, the last ones of the context need not be a window's end.
  if (!all_distances(0, end, [&](int64_t d) { return shape.seen(d) != Seen::kByNone; })) end = n_distances;
  if (end < n_distances) {
    attend.window = end;
    words += fmt::format(", window {}", end);
  }
  if (all_distances(0, end, [&](int64_t d) { return shape.has_no_bias(d); })) return {};
  if (all_distances(0, end, [&](int64_t d) { return shape.follows_slopes(d); })) {
    attend.slopes = shape.slopes();
    words += fmt::format(", ALiBi {} heads", shape.n_heads());
    return {};
  }
  make_table(shape, 0, end - 1, pattern, attend.window > 0);
  words += ", " + table_words(shape, attend);
  return {};
}

// Both directions: all rows of a sequence must exist before any of them attends.
void classify_full(const Shape& shape, int64_t n_behind, int64_t n_ahead, MaskPattern& pattern, std::string& words) {
  if (all_distances(-n_ahead, n_behind, [&](int64_t d) { return shape.has_no_bias(d); })) return;
  const int64_t end = window_of(shape, n_behind);
  make_table(shape, -n_ahead, n_behind - 1, pattern, false);
  const bool local = end < n_behind && all_distances(1 - end, end, [&](int64_t d) { return shape.has_no_bias(d); }) &&
                     all_distances(-n_ahead, 1 - end, [&](int64_t d) { return shape.seen(d) == Seen::kByNone; });
  words += local ? fmt::format(", window {} to both sides", end) : ", " + table_words(shape, pattern.attend);
}

}  // namespace

Expected<> classify_mask(const AttentionContext& context, const MaskProbe& mask, const BiasProfile& profile, MaskPattern& pattern) {
  Attend& attend = pattern.attend;
  std::string words;
  if (mask.from_source) {
    attend.causal = false;
    words = "all of the source";
  } else {
    KVIK_CHECK(profile.require_no_gaps());
    const Shape shape(profile, mask.softmax_expanded ? -50.0f : kHidden * 0.9f);
    const int64_t n_ahead = profile.n_ahead();
    const auto none = [&](int64_t d) { return shape.seen(d) == Seen::kByNone; };
    const auto all = [&](int64_t d) { return shape.seen(d) == Seen::kByAll; };
    attend.causal = all_distances(-n_ahead, 0, none);
    if (!attend.causal && context.labels.flat->has_past) {
      if (!all_distances(-n_ahead, 0, all)) return refuse(mask.node, "some later keys are seen and some are not");
      attend.causal = pattern.new_tokens_see_all = true;
    }
    words = attend.causal ? "causal" : "full";
    if (attend.causal) {
      KVIK_CHECK(classify_causal(shape, profile.n_behind(), pattern, words));
    } else {
      classify_full(shape, profile.n_behind(), n_ahead, pattern, words);
    }
    if (pattern.new_tokens_see_all) words += " (new tokens are not hidden from each other: one at a time)";
  }
  if (attend.soft_cap != 0) words += fmt::format(", soft cap {:.4g}", attend.soft_cap);
  if (!attend.sinks.empty()) words += ", sink";
  attend.words = words;
  return {};
}

float bias_of(const Attend& attend, int64_t head, int64_t distance) {
  if (attend.from_source) return 0;
  if (attend.causal && distance < 0) return kNever;
  if (attend.window > 0 && distance >= attend.window) return kNever;
  if (!attend.slopes.empty()) return -attend.slopes[static_cast<size_t>(head)] * static_cast<float>(distance);
  if (attend.distance_bias.empty()) return 0;
  const auto n = static_cast<int64_t>(attend.distance_bias.size()) / attend.n_heads;
  const int64_t at = std::clamp<int64_t>(distance - attend.first_distance, 0, n - 1);
  return attend.distance_bias[static_cast<size_t>(head * n + at)];
}

}  // namespace kvik::native
