#include "backend/native/attention/probe_mask.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "backend/native/probe/bisect.h"

namespace kvik::native {
namespace {

constexpr int64_t kContextIfUnknown = 8192;
constexpr int64_t kNear = 256;                       // positions of a first probe, which shows the cost of a longer one
constexpr int64_t kMostTogether = 512;               // rows of a prompt that are looked at together
constexpr int64_t kMostFarBytes = int64_t{1} << 26;  // what that may take

struct Size {
  int64_t past, fresh;
};

// Small ones of all kinds; for an attention over a source, the source varies instead.
Expected<std::vector<Sizes>> small_sizes(const Labels& labels, bool from_source) {
  constexpr std::array kWithPast = {Size{0, 6}, Size{5, 1}, Size{3, 4}, Size{11, 5}, Size{40, 1}, Size{30, 9}, Size{0, 1}};
  constexpr std::array kWithoutPast = {Size{0, 6}, Size{0, 3}, Size{0, 13}, Size{0, 41}, Size{0, 1}};
  constexpr std::array kOneToken = {Size{5, 1}, Size{0, 1}, Size{1, 1}, Size{2, 1}, Size{11, 1}, Size{23, 1}, Size{40, 1}};
  const std::span<const Size> chosen = labels.one_token        ? std::span<const Size>(kOneToken)
                                       : labels.flat->has_past ? std::span<const Size>(kWithPast)
                                                               : std::span<const Size>(kWithoutPast);
  std::vector<Sizes> result;
  int64_t source = 5;
  for (const Size& size : chosen) {
    if (!fits_buffer(labels, size.past + size.fresh)) continue;
    KVIK_TRY(const Sizes sizes, sizes_at(labels, {.past = size.past, .fresh = size.fresh, .source = from_source ? source++ : 5}));
    result.push_back(sizes);
  }
  return result;
}

// A cache that an operator keeps as a window of the newest positions: its size limits nothing.
bool is_window(const FlatGraph& flat, onnx::ValueId past) {
  return std::ranges::any_of(flat.graph.nodes, [&](const onnx::Node& node) {
    return node.int_or("sliding_window_cache", 0) != 0 && std::ranges::find(node.inputs, past) != node.inputs.end();
  });
}

// Positions of a cache of fixed size: past them, the graph is not defined.
std::optional<int64_t> capacity_of(const FlatGraph& flat) {
  std::optional<int64_t> capacity;
  for (const FlatGraph::Input& input : flat.inputs) {
    if (input.state == nullptr || input.state->growth != analysis::Growth::kFixed || input.state->capacity <= 0) continue;
    if (is_window(flat, input.value)) continue;
    capacity = std::min(capacity.value_or(input.state->capacity), input.state->capacity);
  }
  return capacity;
}

class MaskInference {
 public:
  MaskInference(const AttentionContext& context, const MaskProbe& mask)
      : context_(context), mask_(mask), profile_(mask.n_heads), function_(mask.score_function) {}

  Expected<MaskPattern> run() {
    if (const auto capacity = capacity_of(*context_.labels.flat)) smallest_bad_ = *capacity + 1;
    KVIK_TRY(const std::vector<Sizes> small, small_sizes(context_.labels, mask_.from_source));
    for (const Sizes& sizes : small) {
      if (!smallest_bad_ || sizes.total() < *smallest_bad_) KVIK_CHECK(try_small(sizes));
    }
    KVIK_CHECK(judge_several_with_past());
    if (!largest_ok_) return refuse(mask_.node, fmt::format("its scores cannot be evaluated at any size ({})", failure_));
    if (!mask_.from_source) KVIK_CHECK(look_far());
    if (whole_prompt_) KVIK_CHECK(look_at_prompt());
    if (!mask_.from_source && context_.labels.flat->buffer > 0) KVIK_CHECK(require_empty_places_hidden());
    MaskPattern pattern;
    pattern.limit = limit_;
    pattern.whole_prompt = whole_prompt_;
    const ScoreFunction function = function_.value_or(ScoreFunction{});
    if (!function_) return refuse(mask_.node, "no row sees any key but its own");
    pattern.attend.scale = function.scale;
    pattern.attend.soft_cap = function.cap;
    pattern.attend.sinks = sinks_;
    pattern.attend.from_source = mask_.from_source;
    pattern.attend.n_heads = mask_.n_heads;
    KVIK_CHECK(classify_mask(context_, mask_, profile_, pattern));
    return pattern;
  }

 private:
  const onnx::Node& node() const { return mask_.node; }

  static bool continues_with_several(const Sizes& sizes) { return sizes.past > 0 && sizes.fresh > 1; }

  // A mask among the new tokens alone has no columns for a past: the graph then defines several new tokens without one, and a single token
  // with one, and nothing else. That is so if it fails for several with a past at every size, and not because there are too many positions.
  Expected<> judge_several_with_past() {
    if (!smallest_bad_several_) return {};
    KVIK_TRY(const bool fits, can_be_evaluated(*smallest_bad_several_));  // so many positions are not too many for one token
    whole_prompt_ = fits && has_continued_ && !has_continued_with_several_ && !mask_.from_source;
    if (whole_prompt_) return {};
    if (fits) return refuse(node(), "its scores are defined only for some numbers of new tokens");
    smallest_bad_ = std::min(smallest_bad_.value_or(*smallest_bad_several_), *smallest_bad_several_);
    return {};
  }

  // Rows of a prompt cannot be probed one by one if they are only defined together.
  Expected<> look_at_prompt() {
    const int64_t last = limit_.value_or(context_.context), together = std::min(last, kMostTogether);
    KVIK_TRY(const Sizes sizes, sizes_at(context_.labels, {.fresh = together}));
    KVIK_TRY(const bool is_defined, observe(sizes));
    if (!is_defined)
      return refuse(node(), fmt::format("its scores cannot be evaluated for a prompt of {} tokens ({})", together, failure_));
    if (together < last) limit_ = together;
    return {};
  }

  Expected<> try_small(const Sizes& sizes) {
    KVIK_TRY(const bool is_defined, observe(sizes));
    if (is_defined) {
      largest_ok_ = std::max(largest_ok_.value_or(0), sizes.total());
      if (sizes.past > 0) (sizes.fresh > 1 ? has_continued_with_several_ : has_continued_) = true;
    } else {
      std::optional<int64_t>& bad = continues_with_several(sizes) ? smallest_bad_several_ : smallest_bad_;
      bad = std::min(bad.value_or(sizes.total()), sizes.total());
    }
    return {};
  }

  // False if the graph does not define these sizes.
  Expected<bool> observe(const Sizes& sizes) {
    const float none = 0;
    KVIK_TRY(const Evaluated<Scores> found_scores, mask_.source.softmax_input(sizes, std::span(&none, 1)));
    if (!found_scores) failure_ = found_scores.failure;
    if (!found_scores) return false;
    const Scores& scores = *found_scores;
    const int64_t n_keys = mask_.source.n_keys(sizes), position = mask_.from_source ? -1 : sizes.past;
    KVIK_TRY(const Reference reference, reference_of(node(), position, n_keys, scores));
    KVIK_CHECK(require_equal_batches(sizes));
    if (mask_.from_source) {
      KVIK_CHECK(require_no_bias(n_keys, scores, reference));
    } else {
      KVIK_CHECK(observe_biases(position, n_keys, scores, reference));
    }
    KVIK_CHECK(observe_sinks(n_keys, scores, reference));
    if (mask_.score_function) return true;
    const auto ask = [&](std::span<const float> x) { return require(mask_.source.softmax_input(sizes, x)); };
    KVIK_TRY(const std::optional<ScoreFunction> found, score_function(node(), {scores, reference, n_keys, ask}));
    if (!found) return true;
    if (!function_) function_ = found;
    if (!same_function(*function_, *found)) return refuse(node(), "the scale of its scores depends on the number of tokens");
    return true;
  }

  // Of sizes that the graph is known to define.
  Expected<Scores> require(Expected<Evaluated<Scores>> found) const {
    if (!found) return std::move(found).refusal();
    if (!*found) return refuse(node(), found->failure);
    return std::move(**found);
  }

  Expected<> require_equal_batches(const Sizes& sizes) {
    if (context_.labels.one_token || context_.labels.one_sequence) return {};
    Sizes two = sizes;
    two.batch = 2;
    const float none = 0;
    KVIK_TRY(const Evaluated<Scores> found, mask_.source.softmax_input(two, std::span(&none, 1)));
    if (!found) return {};  // a graph for one sequence at a time
    const Scores& scores = *found;
    const size_t half = scores.data.size() / 2;
    for (size_t i = 0; i < half; ++i) {
      const float a = scores.data[i], b = scores.data[half + i];
      if (a != b && !(a < kHidden && b < kHidden) && !(std::abs(a - b) <= 1e-5f * std::abs(a)))
        return refuse(node(), "its bias differs between the entries of a batch");
    }
    return {};
  }

  Expected<> observe_biases(int64_t position, int64_t n_keys, const Scores& scores, const Reference& reference) {
    if (const auto distance = profile_.add(position, n_keys, scores, reference)) {
      return refuse(node(),
                    fmt::format("its bias on scores does not depend only on the distance between query and key (distance {}, {} tokens)",
                                *distance, n_keys));
    }
    return {};
  }

  Expected<> require_no_bias(int64_t n_keys, const Scores& scores, const Reference& reference) const {
    for (int64_t q = 0; q < scores.rows; ++q) {
      for (int64_t k = 0; k < n_keys; ++k) {
        for (int64_t h = 0; h < scores.heads; ++h) {
          const float bias = scores.at(0, q, k, h) - scores.at(0, q, reference.key[static_cast<size_t>(q)], h);
          if (!(std::abs(bias) < 1e-5f)) return refuse(node(), "it adds a bias to scores over the source");
        }
      }
    }
    return {};
  }

  Expected<> observe_sinks(int64_t n_keys, const Scores& scores, const Reference& reference) {
    if (scores.keys == n_keys) return {};
    for (int64_t q = 0; q < scores.rows; ++q) {
      for (int64_t h = 0; h < scores.heads; ++h) {
        const float sink = scores.at(0, q, n_keys, h) - scores.at(0, q, reference.key[static_cast<size_t>(q)], h);
        if (static_cast<int64_t>(sinks_.size()) <= h) sinks_.push_back(sink);
        if (!(std::abs(sinks_[static_cast<size_t>(h)] - sink) <= 1e-4f)) return refuse(node(), "its sink is not the same for all tokens");
      }
    }
    return {};
  }

  // Other probes see a full buffer. If it is not full, unwritten positions must get no weight, and the pattern must stay the same.
  Expected<> require_empty_places_hidden() {
    const int64_t buffer = context_.labels.flat->buffer;
    for (const Size& size : {Size{0, 1}, Size{0, 3}, Size{5, 1}, Size{3, 4}}) {
      if (size.past + size.fresh >= buffer || (context_.labels.one_token && size.fresh > 1)) continue;
      const Sizes sizes = {.fresh = size.fresh, .past = size.past, .buffer = buffer};
      const float none = 0;
      KVIK_TRY(const Scores scores, require(mask_.source.softmax_input(sizes, std::span(&none, 1))));
      const Scores written = part_of(scores, context_.newest_last ? buffer - sizes.total() : 0, sizes.total());
      KVIK_TRY(const Reference reference, reference_of(node(), sizes.past, sizes.total(), written));
      KVIK_CHECK(observe_biases(sizes.past, sizes.total(), written, reference));
      const int64_t n_empty = buffer - sizes.total();
      KVIK_CHECK(require_hidden(part_of(scores, context_.newest_last ? 0 : sizes.total(), n_empty), written, reference));
    }
    return {};
  }

  // `count` keys from `first` on.
  static Scores part_of(const Scores& scores, int64_t first, int64_t count) {
    Scores part = {.batch = scores.batch, .rows = scores.rows, .keys = count, .heads = scores.heads, .data = {}};
    part.data.resize(static_cast<size_t>(part.batch * part.rows * part.keys * part.heads));
    for (int64_t b = 0; b < part.batch; ++b) {
      for (int64_t q = 0; q < part.rows; ++q) {
        for (int64_t k = 0; k < count; ++k) {
          for (int64_t h = 0; h < part.heads; ++h) part.at(b, q, k, h) = scores.at(b, q, first + k, h);
        }
      }
    }
    return part;
  }

  Expected<> require_hidden(const Scores& empty, const Scores& written, const Reference& reference) const {
    for (int64_t q = 0; q < empty.rows; ++q) {
      for (int64_t k = 0; k < empty.keys; ++k) {
        for (int64_t h = 0; h < empty.heads; ++h) {
          const float seen = written.at(0, q, reference.key[static_cast<size_t>(q)], h);
          if (!(empty.at(0, q, k, h) < seen + kHidden)) return refuse(node(), "it sees cache positions that have not been written");
        }
      }
    }
    return {};
  }

  bool rows_are_computed_together() const { return !context_.labels.flat->has_past && !context_.labels.one_token; }

  // Probes that are shorter than a window cannot detect it, so the last row of a whole context is probed too.
  Expected<> look_far() {
    const int64_t wanted = context_.context > 0 ? context_.context : kContextIfUnknown;
    int64_t most = smallest_bad_ ? std::min(wanted, *smallest_bad_ - 1) : wanted;
    KVIK_TRY(const int64_t within_reach, affordable(most));
    most = std::min(most, within_reach);
    if (most > *largest_ok_) {
      KVIK_TRY(most, far_as_possible(*largest_ok_, most));
      KVIK_CHECK(observe_far(most));
    }
    if (most < wanted || context_.context == 0) limit_ = std::max(most, *largest_ok_);
    return {};
  }

  // A mask over all pairs of a context is too much; one over its keys is not. The growth of the work shows which it is.
  Expected<int64_t> affordable(int64_t wanted) {
    if (wanted <= 2 * kNear) return wanted;
    KVIK_TRY(const double near, bytes_at(kNear));
    KVIK_TRY(const double twice, bytes_at(2 * kNear));
    if (near == 0 || twice == 0) return wanted;  // it ends before that
    if (context_.patterns.affordable) return std::min(wanted, *context_.patterns.affordable);
    const double growth = std::clamp(std::log2(twice / near), 1.0, 2.0);
    const double times = std::pow(std::max(1.0, static_cast<double>(kMostFarBytes) / twice), 1 / growth);
    context_.patterns.affordable = static_cast<int64_t>(static_cast<double>(2 * kNear) * times);
    return std::min(wanted, *context_.patterns.affordable);
  }

  // What looking at the last of so many positions takes; 0 if that fails.
  Expected<double> bytes_at(int64_t total) {
    KVIK_TRY(const Sizes sizes, sizes_at(context_.labels, {.past = total - 1}));
    Probe& probe = context_.probes.at(sizes);
    const int64_t before = probe.bytes_spent();
    KVIK_TRY(const bool is_defined, can_be_evaluated(total));
    return is_defined ? static_cast<double>(std::max<int64_t>(1, probe.bytes_spent() - before)) : 0.0;
  }

  Expected<bool> can_be_evaluated(int64_t total) {
    const float none = 0;
    KVIK_TRY(const Evaluated<Scores> found, mask_.source.softmax_input_of_row(total, total - 1, std::span(&none, 1)));
    return found.value.has_value();
  }

  // The largest number of positions that works, between one that does and one that may.
  Expected<int64_t> far_as_possible(int64_t good, int64_t wanted) {
    KVIK_TRY(const bool is_defined, can_be_evaluated(wanted));
    if (is_defined) return wanted;
    return bisect(good, wanted, [&](int64_t total) { return can_be_evaluated(total); });
  }

  // The last row sees farthest back; where rows see both ways, the first one sees farthest ahead.
  Expected<> observe_far(int64_t total) {
    KVIK_CHECK(observe_row(total, total - 1));
    if (!rows_are_computed_together()) return {};
    for (const int64_t position : {int64_t{0}, total / 2, total / 3}) KVIK_CHECK(observe_row(total, position));
    return {};
  }

  Expected<> observe_row(int64_t total, int64_t position) {
    const auto ask = [&](std::span<const float> x) { return require(mask_.source.softmax_input_of_row(total, position, x)); };
    const float none = 0;
    KVIK_TRY(const Scores scores, ask(std::span(&none, 1)));
    KVIK_TRY(const Reference reference, reference_of(node(), position, total, scores));
    KVIK_CHECK(observe_biases(position, total, scores, reference));
    KVIK_CHECK(observe_sinks(total, scores, reference));
    if (mask_.score_function || !function_) return {};
    return require_response(node(), {scores, reference, total, ask}, *function_);
  }

  const AttentionContext& context_;
  const MaskProbe& mask_;
  BiasProfile profile_;
  std::optional<ScoreFunction> function_;
  std::vector<float> sinks_;
  std::optional<int64_t> largest_ok_, smallest_bad_, limit_;
  std::optional<int64_t> smallest_bad_several_;                      // of several new tokens with a past
  bool has_continued_ = false, has_continued_with_several_ = false;  // a past and one new token, or several, were defined
  bool whole_prompt_ = false;                                        // see FoundAttention
  std::string failure_;
};

}  // namespace

Expected<MaskPattern> probe_mask(const AttentionContext& context, const MaskProbe& mask) { return MaskInference(context, mask).run(); }

}  // namespace kvik::native
