#include "backend/native/attention/rule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace kvik::native {
namespace {

constexpr int64_t kContextIfUnknown = 8192;
constexpr double kMostFarScores = 1 << 25;  // scores of a probe over a whole context, where every row is computed

struct Size {
  int64_t past, fresh;
};

// Small ones, of all sorts; an attention over a source varies that instead.
std::vector<Sizes> small_sizes(const Labels& labels, bool from_source) {
  constexpr std::array kWithPast = {Size{0, 6}, Size{5, 1}, Size{3, 4}, Size{11, 5}, Size{40, 1}, Size{30, 9}, Size{0, 1}};
  constexpr std::array kWithoutPast = {Size{0, 6}, Size{0, 3}, Size{0, 13}, Size{0, 41}, Size{0, 1}};
  constexpr std::array kOneToken = {Size{5, 1}, Size{0, 1}, Size{1, 1}, Size{2, 1}, Size{11, 1}, Size{23, 1}, Size{40, 1}};
  std::vector<Sizes> result;
  const auto add = [&](std::span<const Size> sizes) {
    int64_t source = 5;
    for (const Size& size : sizes) result.push_back(sizes_at(labels, size.past, size.fresh, 1, from_source ? source++ : 5));
  };
  if (labels.one_token) {
    add(kOneToken);
  } else if (labels.flat->has_past) {
    add(kWithPast);
  } else {
    add(kWithoutPast);
  }
  return result;
}

class Inference {
 public:
  Inference(const AttentionContext& context, const RuleQuestion& question)
      : context_(context), question_(question), profile_(question.n_heads), function_(question.score_function) {}

  Rule run() {
    for (const Sizes& sizes : small_sizes(context_.labels, question_.from_source)) try_small(sizes);
    if (!largest_ok_) throw Refusal(question_.node, fmt::format("its scores cannot be evaluated at any size ({})", failure_));
    if (!question_.from_source) look_far();
    Rule rule;
    rule.limit = limit_;
    const ScoreFunction function = function_.value_or(ScoreFunction{});
    if (!function_) throw Refusal(question_.node, "no row sees any other key than its own");
    rule.attend.scale = function.scale;
    rule.attend.soft_cap = function.cap;
    rule.attend.sinks = sinks_;
    rule.attend.from_source = question_.from_source;
    rule.attend.n_heads = question_.n_heads;
    classify(context_, question_, profile_, rule);
    return rule;
  }

 private:
  const onnx::Node& node() const { return question_.node; }

  void try_small(const Sizes& sizes) {
    try {
      observe(sizes);
      largest_ok_ = std::max(largest_ok_.value_or(0), sizes.total());
    } catch (const Refusal&) { throw; } catch (const Error& e) {
      failure_ = e.what();
      smallest_bad_ = std::min(smallest_bad_.value_or(sizes.total()), sizes.total());
    }
  }

  void observe(const Sizes& sizes) {
    const float none = 0;
    const Scores scores = question_.source.softmax_input(sizes, std::span(&none, 1));
    const Reference reference = reference_of(node(), sizes, scores, question_.from_source);
    require_equal_batches(sizes);
    observe_biases(sizes, scores, reference);
    observe_sinks(sizes, scores, reference);
    if (question_.score_function) return;
    const auto found = score_function(node(), question_.source, {sizes, scores, reference});
    if (!found) return;
    if (!function_) function_ = found;
    if (!same_function(*function_, *found)) throw Refusal(node(), "the scale of its scores depends on the number of tokens");
  }

  void require_equal_batches(const Sizes& sizes) {
    if (context_.labels.one_token) return;
    Sizes two = sizes;
    two.batch = 2;
    const float none = 0;
    const Scores scores = question_.source.softmax_input(two, std::span(&none, 1));
    const size_t half = scores.data.size() / 2;
    for (size_t i = 0; i < half; ++i) {
      const float a = scores.data[i], b = scores.data[half + i];
      if (a != b && !(a < kHidden && b < kHidden) && !(std::abs(a - b) <= 1e-5f * std::abs(a)))
        throw Refusal(node(), "its bias differs between the entries of a batch");
    }
  }

  void observe_biases(const Sizes& sizes, const Scores& scores, const Reference& reference) {
    if (question_.from_source) return require_no_bias(sizes, scores, reference);
    std::vector<int64_t> rows(static_cast<size_t>(scores.rows));
    std::iota(rows.begin(), rows.end(), 0);
    // Of a whole context every row was computed, but a few tell.
    constexpr size_t kMostRows = 64;
    if (rows.size() > kMostRows) {
      const int64_t step = scores.rows / static_cast<int64_t>(kMostRows);
      std::erase_if(rows, [&](int64_t q) { return q % step != 0 && q != scores.rows - 1; });
    }
    if (const auto distance = profile_.add(sizes, scores, reference, rows)) {
      throw Refusal(node(), fmt::format("what it adds to scores is no function of the distance between query and key (distance {}, with "
                                        "{} tokens before and {} new)",
                                        *distance, sizes.past, sizes.fresh));
    }
  }

  void require_no_bias(const Sizes& sizes, const Scores& scores, const Reference& reference) const {
    for (int64_t q = 0; q < scores.rows; ++q) {
      for (int64_t k = 0; k < sizes.source; ++k) {
        for (int64_t h = 0; h < scores.heads; ++h) {
          const float bias = scores.at(0, q, k, h) - scores.at(0, q, reference.key[static_cast<size_t>(q)], h);
          if (!(std::abs(bias) < 1e-5f)) throw Refusal(node(), "it adds a bias to scores over the source");
        }
      }
    }
  }

  void observe_sinks(const Sizes& sizes, const Scores& scores, const Reference& reference) {
    const int64_t n_keys = question_.source.n_keys(sizes);
    if (scores.keys == n_keys) return;
    for (int64_t q = 0; q < scores.rows; ++q) {
      for (int64_t h = 0; h < scores.heads; ++h) {
        const float sink = scores.at(0, q, n_keys, h) - scores.at(0, q, reference.key[static_cast<size_t>(q)], h);
        if (static_cast<int64_t>(sinks_.size()) <= h) sinks_.push_back(sink);
        if (!(std::abs(sinks_[static_cast<size_t>(h)] - sink) <= 1e-4f)) throw Refusal(node(), "its sink is not the same for all tokens");
      }
    }
  }

  bool rows_are_computed_together() const { return !context_.labels.flat->has_past && !context_.labels.one_token; }

  Sizes far_sizes(int64_t total) const { return sizes_at(context_.labels, total - 1, 1); }

  // A window is invisible to probes that are shorter than it, so the last row of a whole context is looked at.
  void look_far() {
    const int64_t wanted = context_.context > 0 ? context_.context : kContextIfUnknown;
    int64_t most = wanted;
    if (smallest_bad_) most = std::min(most, *smallest_bad_ - 1);
    if (rows_are_computed_together()) {
      most = std::min(most, static_cast<int64_t>(std::sqrt(kMostFarScores / static_cast<double>(question_.n_heads))));
    }
    if (most > *largest_ok_) {
      most = far_as_possible(*largest_ok_, most);
      observe_far(most);
    }
    if (most < wanted || context_.context == 0) limit_ = std::max(most, *largest_ok_);
  }

  bool can_be_evaluated(int64_t total) {
    try {
      const float none = 0;
      question_.source.softmax_input(far_sizes(total), std::span(&none, 1));
      return true;
    } catch (const Refusal&) { throw; } catch (const Error&) {
      return false;
    }
  }

  // The largest number of positions that works, between one that does and one that may.
  int64_t far_as_possible(int64_t good, int64_t wanted) {
    if (can_be_evaluated(wanted)) return wanted;
    int64_t bad = wanted;
    while (bad - good > 1) {
      const int64_t middle = good + (bad - good) / 2;
      (can_be_evaluated(middle) ? good : bad) = middle;
    }
    return good;
  }

  void observe_far(int64_t total) {
    const Sizes sizes = far_sizes(total);
    const float none = 0;
    const Scores scores = question_.source.softmax_input(sizes, std::span(&none, 1));
    const Reference reference = reference_of(node(), sizes, scores, false);
    observe_biases(sizes, scores, reference);
    observe_sinks(sizes, scores, reference);
    if (!question_.score_function && function_) require_response(node(), question_.source, {sizes, scores, reference}, *function_);
  }

  const AttentionContext& context_;
  const RuleQuestion& question_;
  Profile profile_;
  std::optional<ScoreFunction> function_;
  std::vector<float> sinks_;
  std::optional<int64_t> largest_ok_, smallest_bad_, limit_;
  std::string failure_;
};

}  // namespace

Rule infer_rule(const AttentionContext& context, const RuleQuestion& question) { return Inference(context, question).run(); }

}  // namespace kvik::native
