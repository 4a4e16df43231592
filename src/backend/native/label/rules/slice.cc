#include <algorithm>
#include <fmt/format.h>

#include "backend/native/label/rules.h"
#include "onnx/eval/ops/common.h"

namespace kvik::native {
namespace {

// The part of an axis that is selected at one set of sizes, clamped as the operator does.
struct Range {
  int64_t start = 0, count = 0, step = 1;

  bool is_all_of(int64_t size) const { return start == 0 && count == size && step == 1; }
  friend bool operator==(const Range&, const Range&) = default;
};

Range clamped(int64_t start, int64_t end, int64_t step, int64_t size) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto fix = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, low, high); };
  start = start < -size ? low : fix(start);
  end = end < -size ? low : fix(end);
  const int64_t span = step > 0 ? end - start : start - end;
  const int64_t stride = step > 0 ? step : -step;
  return {start, span <= 0 ? 0 : (span + stride - 1) / stride, step};
}

struct Bounds {
  std::vector<Sizes> sizes;                        // those that identify axes, and long ones
  std::vector<std::vector<int64_t>> starts, ends;  // for each of them
  std::vector<int64_t> axes, steps;
};

// Short sequences do not have a part that is cut off beyond some length.
Expected<> look_far(NodeLabeler& op, Bounds& bounds) {
  const size_t count = bounds.starts.front().size();
  CompileState& state = op.labeler().state();
  for (const Sizes& sizes : long_sizes(state.labels, state.options.context)) {
    Probe& probe = state.probes.at(sizes);
    KVIK_TRY(const Evaluated<Tensor> start, probe.try_get(op.node().inputs[1]));
    KVIK_TRY(const Evaluated<Tensor> end, probe.try_get(op.node().inputs[2]));
    if (!start || !end) return {};  // the graph has no such length
    bounds.starts.push_back(onnx::as_ints(*start));
    bounds.ends.push_back(onnx::as_ints(*end));
    bounds.sizes.push_back(sizes);
    if (bounds.starts.back().size() != count || bounds.ends.back().size() != count)
      return op.refuse("the number of its bounds varies with the sizes");
  }
  return {};
}

Expected<Bounds> bounds_of(NodeLabeler& op) {
  Bounds bounds;
  bounds.sizes.assign(op.sizes().begin(), op.sizes().end());
  if (op.n_inputs() > 1) {
    KVIK_TRY(bounds.starts, op.ints_by_size(1));
    KVIK_TRY(bounds.ends, op.ints_by_size(2));
    KVIK_CHECK(look_far(op, bounds));
    KVIK_TRY(bounds.axes, op.has(3) ? op.ints(3) : std::vector<int64_t>());
    KVIK_TRY(bounds.steps, op.has(4) ? op.ints(4) : std::vector<int64_t>());
  } else {
    bounds.starts.assign(op.sizes().size(), op.node().ints_or("starts", {}));
    bounds.ends.assign(op.sizes().size(), op.node().ints_or("ends", {}));
    bounds.axes = op.node().ints_or("axes", {});
    for (const Sizes& sizes : long_sizes(op.labeler().labels(), op.labeler().state().options.context)) {
      bounds.sizes.push_back(sizes);
      bounds.starts.push_back(bounds.starts.front());
      bounds.ends.push_back(bounds.ends.front());
    }
  }
  const size_t count = bounds.starts.front().size();
  for (size_t i = bounds.axes.size(); i < count; ++i) bounds.axes.push_back(static_cast<int64_t>(i));
  bounds.steps.resize(count, 1);
  if (bounds.ends.front().size() != count || bounds.axes.size() != count) return op.refuse("starts, ends and axes differ in number");
  return bounds;
}

// The slice of a row: only axes of features are cut.
struct FeatureSlice {
  std::vector<int64_t> starts, ends, axes, steps;
};

class Slicing {
 public:
  Slicing(NodeLabeler& op, Axes axes) : op_(op), axes_(std::move(axes)) {}

  Expected<> cut(size_t at, const std::vector<Range>& ranges, std::span<const Sizes> sizes) {
    const Axis& axis = axes_[at];
    const auto every = [&](auto&& test) {
      for (size_t s = 0; s < sizes.size(); ++s) {
        if (!test(ranges[s], sizes[s])) return false;
      }
      return true;
    };
    if (every([&](const Range& range, const Sizes& set) { return range.is_all_of(set.of(axis)); })) return {};
    const bool same_range = every([&](const Range& range, const Sizes&) { return range == ranges.front(); });
    if (!has_symbol(axis) && same_range) {
      cut_features(at, ranges.front());
      return {};
    }
    const auto is_last = [&](const Range& range, const Sizes& set) { return range.count == 1 && range.start == set.of(axis) - 1; };
    const auto is_fresh = [](const Range& range, const Sizes& set) {
      return range.count == set.fresh && range.start == set.past && range.step == 1;
    };
    const auto drops_sink = [](const Range& range, const Sizes& set) { return range.is_all_of(set.total()); };
    const auto same_count = [&](const Range& range, const Sizes&) { return range.count == ranges.front().count && range.count > 0; };
    if (axis == Axis{factor(Symbol::kNew)} && !op_.any_score() && every(is_last)) {
      axes_[at] = {};
      op_.mark_last();
    } else if (axis == Axis{factor(Symbol::kTotal)} && !op_.any_score() && every(is_fresh)) {
      axes_[at] = {factor(Symbol::kNew)};
    } else if (axis == Axis{factor(Symbol::kTotalAndSink)} && every(drops_sink)) {
      axes_[at] = {factor(Symbol::kTotal)};
    } else if (every(same_count) && !op_.any_score()) {
      axes_[at] = canonical({factor(ranges.front().count)});
      op_.poison(fmt::format("takes a part of an axis of rows ({} of {})", ranges.front().count, to_string(axis)));
    } else {
      return op_.refuse(fmt::format("slices an axis of rows: {}", to_string(axis)));
    }
    return {};
  }

  Expected<> finish() {
    if (features_.axes.empty()) return op_.emit_alias(0, axes_);
    const auto list = [](const std::vector<int64_t>& values) { return Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values); };
    if (op_.n_inputs() > 1) {
      op_.replace_operand(1, list(features_.starts));
      op_.replace_operand(2, list(features_.ends));
      op_.replace_operand(3, list(features_.axes));
      op_.replace_operand(4, list(features_.steps));
    }
    return op_.emit_with(axes_, op_.dtype(0));
  }

 private:
  void cut_features(size_t at, const Range& range) {
    if (range.count < 1) return op_.mark_empty();
    axes_[at] = canonical({factor(range.count)});
    const int64_t end = range.start + range.count * range.step;
    features_.starts.push_back(range.start);
    features_.ends.push_back(end < 0 ? std::numeric_limits<int64_t>::min() : end);
    features_.axes.push_back(static_cast<int64_t>(at));
    features_.steps.push_back(range.step);
  }

  NodeLabeler& op_;
  Axes axes_;
  FeatureSlice features_;
};

Expected<> slice(NodeLabeler& op) {
  KVIK_TRY(const Bounds bounds, bounds_of(op));
  KVIK_TRY(const Axes axes, op.axes(0));
  Slicing slicing(op, axes);
  for (size_t j = 0; j < bounds.axes.size(); ++j) {
    KVIK_TRY(const size_t at, op.axis_at(bounds.axes[j], axes.size()));
    if (bounds.steps[j] == 0 || std::abs(bounds.steps[j]) > std::numeric_limits<int32_t>::max())
      return op.refuse("has a step of 0 or a step that is too large");
    std::vector<Range> ranges;
    for (size_t s = 0; s < bounds.sizes.size(); ++s) {
      ranges.push_back(clamped(bounds.starts[s][j], bounds.ends[s][j], bounds.steps[j], bounds.sizes[s].of(axes[at])));
    }
    KVIK_CHECK(slicing.cut(at, ranges, bounds.sizes));
  }
  return slicing.finish();
}

}  // namespace

void add_slice_rules(RuleTable& table) { table.add("Slice", slice); }

}  // namespace kvik::native
