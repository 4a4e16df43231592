#include <algorithm>
#include <fmt/format.h>

#include "backend/native/label/rules.h"

// Operators that combine the elements of some axes, which must be features of one row: sums, norms, softmax.
namespace kvik::native {
namespace {

using enum Symbol;

constexpr std::string_view kReductions[] = {"ReduceMean", "ReduceSum", "ReduceMax",       "ReduceMin",    "ReduceProd",
                                            "ReduceL1",   "ReduceL2",  "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"};

Expected<> require_features(NodeLabeler& op, const std::vector<size_t>& over) {
  KVIK_TRY(const Axes axes, op.axes(0));
  for (const size_t at : over) {
    if (has_symbol(axes[at])) return op.refuse(fmt::format("combines rows: it works over axis {} of {}", at, to_string(axes)));
  }
  return {};
}

Axes without(const Axes& axes, const std::vector<size_t>& over, bool keep) {
  Axes result;
  for (size_t i = 0; i < axes.size(); ++i) {
    const bool reduced = std::find(over.begin(), over.end(), i) != over.end();
    if (!reduced) result.push_back(axes[i]);
    if (reduced && keep) result.emplace_back();
  }
  return result;
}

Expected<std::vector<size_t>> reduced_axes(NodeLabeler& op, size_t rank) {
  KVIK_TRY(const std::optional<std::vector<int64_t>> named, op.ints_of("axes", 1));
  std::vector<size_t> over;
  for (const int64_t axis : named.value_or(std::vector<int64_t>())) {
    KVIK_TRY(const size_t at, op.axis_at(axis, rank));
    over.push_back(at);
  }
  if (over.empty() && op.node().int_or("noop_with_empty_axes", 0) == 0) {
    for (size_t i = 0; i < rank; ++i) over.push_back(i);
  }
  return over;
}

Expected<> reduce(NodeLabeler& op) {
  KVIK_TRY(const Axes axes, op.axes(0));
  KVIK_TRY(const std::vector<size_t> over, reduced_axes(op, axes.size()));
  const bool keeps = op.node().int_or("keepdims", 1) != 0;
  // Scores may be reduced over their keys: that is part of the attention and probed with it.
  if (!(op.any_score() && keeps)) KVIK_CHECK(require_features(op, over));
  return op.emit_with(without(axes, over, keeps), op.dtype(0));
}

// Older opsets flatten everything from the axis on.
Expected<std::vector<size_t>> softmax_axes(NodeLabeler& op, const Axes& axes) {
  const bool flattens = op.node().opset < 13;
  KVIK_TRY(const size_t first, op.axis_at(op.node().int_or("axis", flattens ? 1 : -1), axes.size()));
  std::vector<size_t> over = {first};
  for (size_t i = first + 1; flattens && i < axes.size(); ++i) {
    if (!axes[i].empty()) over.push_back(i);
  }
  return over;
}

bool is_over_keys(const NodeLabeler& op, const Axes& axes, const std::vector<size_t>& over) {
  if (!op.is("Softmax") || !op.any_score() || over.size() != 1) return false;
  const Axis& axis = axes[over.front()];
  return axis == Axis{factor(kTotal)} || axis == Axis{factor(kSource)} || axis == Axis{factor(kTotalAndSink)};
}

// Scores of a graph without a past that are normalized along the assumed queries: queries and keys are the other way around.
bool is_over_queries(NodeLabeler& op, const Axes& axes, const std::vector<size_t>& over) {
  if (!op.is("Softmax") || !op.any_score() || over.size() != 1 || op.labeler().flat().has_past) return false;
  return axes[over.front()] == Axis{factor(kNew)} && !op.labeler().labels().keys_on_left;
}

Expected<> softmax(NodeLabeler& op) {
  KVIK_TRY(const Axes axes, op.axes(0));
  KVIK_TRY(const std::vector<size_t> over, softmax_axes(op, axes));
  if (is_over_queries(op, axes, over)) {
    op.labeler().hints.keys_on_left = true;
    op.labeler().learned = true;
  }
  if (!is_over_keys(op, axes, over)) KVIK_CHECK(require_features(op, over));
  return op.emit_with(axes, op.dtype(0));
}

Expected<> arg_reduce(NodeLabeler& op) {
  KVIK_TRY(const Axes axes, op.axes(0));
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", 0), axes.size()));
  KVIK_CHECK(require_features(op, {at}));
  return op.emit_with(without(axes, {at}, op.node().int_or("keepdims", 1) != 0), DType::kI64);
}

Expected<> top_k(NodeLabeler& op) {
  KVIK_TRY(Axes axes, op.axes(0));
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", -1), axes.size()));
  KVIK_CHECK(require_features(op, {at}));
  KVIK_TRY(const std::vector<int64_t> k, op.ints(1));
  if (k.size() != 1 || k[0] < 1 || k[0] > row_size(axes[at])) return op.refuse("takes an odd number of elements");
  axes[at] = {factor(k[0])};
  KVIK_CHECK(op.set_output(1, axes, DType::kI64));
  return op.emit_with(axes, op.dtype(0));
}

Expected<> cumulative(NodeLabeler& op) {
  KVIK_TRY(const std::vector<int64_t> axis, op.ints(1));
  if (axis.size() != 1) return op.refuse("names no axis");
  KVIK_TRY(const Axes axes, op.axes(0));
  KVIK_TRY(const size_t at, op.axis_at(axis[0], axes.size()));
  KVIK_CHECK(require_features(op, {at}));
  return op.emit_with(axes, op.dtype(0));
}

// Normalizes everything from an axis on; scale and bias are constants of those axes.
Expected<> normalize(NodeLabeler& op) {
  KVIK_TRY(const Axes axes, op.axes(0));
  KVIK_TRY(const size_t first, op.axis_at(op.node().int_or("axis", -1), axes.size()));
  std::vector<size_t> over;
  for (size_t i = first; i < axes.size(); ++i) over.push_back(i);
  KVIK_CHECK(require_features(op, over));
  std::vector<Axes> all = {axes};
  for (size_t i = 1; i < op.n_inputs(); ++i) {
    if (!op.has(i)) continue;
    KVIK_TRY(Axes fitted, op.fitted(i, axes));
    all.push_back(std::move(fitted));
  }
  KVIK_TRY(const Axes together, op.broadcast(all));
  if (together != axes) return op.refuse("scale and bias have other axes than the rows");
  const Axes statistics = without(axes, over, true);
  KVIK_CHECK(op.set_output(1, statistics, DType::kF32));
  KVIK_CHECK(op.set_output(2, statistics, DType::kF32));
  return op.emit_with(axes, op.dtype(0));
}

// As above on the sum of two rows (and a bias), which is the last output; the ones between are statistics.
Expected<> skip_normalize(NodeLabeler& op) {
  KVIK_TRY(const Axes axes, op.axes(0));
  KVIK_CHECK(require_features(op, {axes.size() - 1}));
  std::vector<Axes> all;
  for (size_t i = 0; i < op.n_inputs(); ++i) {
    if (!op.has(i)) continue;
    KVIK_TRY(Axes fitted, op.fitted(i, axes));
    all.push_back(std::move(fitted));
  }
  KVIK_TRY(const Axes together, op.broadcast(all));
  if (together != axes) return op.refuse("the inputs have other axes than the rows");
  const Axes statistics = without(axes, {axes.size() - 1}, true);
  KVIK_CHECK(op.set_output(1, statistics, DType::kF32));
  KVIK_CHECK(op.set_output(2, statistics, DType::kF32));
  KVIK_CHECK(op.set_output(3, axes, op.dtype(0)));
  return op.emit_with(axes, op.dtype(0));
}

Expected<> lp_normalize(NodeLabeler& op) {
  KVIK_TRY(const Axes axes, op.axes(0));
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", -1), axes.size()));
  KVIK_CHECK(require_features(op, {at}));
  return op.emit_with(axes, op.dtype(0));
}

}  // namespace

void add_reduce_rules(RuleTable& table) {
  for (const std::string_view op : kReductions) table.add(op, reduce);
  for (const std::string_view op : {"Softmax", "LogSoftmax"}) table.add(op, softmax);
  for (const std::string_view op : {"ArgMax", "ArgMin"}) table.add(op, arg_reduce);
  table.add("TopK", top_k);
  table.add("CumSum", cumulative);
  for (const std::string_view op : {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"}) table.add(op, normalize);
  for (const std::string_view op : {"SimplifiedLayerNormalization", "LayerNormalization"}) table.add(kMicrosoft, op, normalize);
  for (const std::string_view op : {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"})
    table.add(kMicrosoft, op, skip_normalize);
  table.add("LpNormalization", lp_normalize);
}

}  // namespace kvik::native
