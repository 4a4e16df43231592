#include <algorithm>
#include <fmt/format.h>

#include "backend/native/label/rules.h"

// Operators that combine the elements of some axes, which must be features of one row: sums, norms, softmax.
namespace kvik::native {
namespace {

using enum Symbol;

constexpr std::string_view kReductions[] = {"ReduceMean", "ReduceSum", "ReduceMax",       "ReduceMin",    "ReduceProd",
                                            "ReduceL1",   "ReduceL2",  "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"};

void require_features(NodeLabeler& op, const std::vector<size_t>& over) {
  for (const size_t at : over) {
    if (has_symbol(op.axes(0)[at])) op.refuse(fmt::format("combines rows: it works over axis {} of {}", at, to_string(op.axes(0))));
  }
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

std::vector<size_t> reduced_axes(NodeLabeler& op) {
  const size_t rank = op.axes(0).size();
  std::vector<size_t> over;
  for (const int64_t axis : op.ints_of("axes", 1).value_or(std::vector<int64_t>()))
    over.push_back(static_cast<size_t>(op.axis_at(axis, rank)));
  if (over.empty() && op.node().int_or("noop_with_empty_axes", 0) == 0) {
    for (size_t i = 0; i < rank; ++i) over.push_back(i);
  }
  return over;
}

void reduce(NodeLabeler& op) {
  const std::vector<size_t> over = reduced_axes(op);
  const bool keeps = op.node().int_or("keepdims", 1) != 0;
  // Scores may be reduced over their keys: it is the attention's own affair, and is probed with it.
  if (!(op.any_score() && keeps)) require_features(op, over);
  op.set_output(0, without(op.axes(0), over, keeps), op.dtype(0));
  op.emit();
}

// Older opsets flatten everything from the axis on.
std::vector<size_t> softmax_axes(NodeLabeler& op) {
  const size_t rank = op.axes(0).size();
  const bool flattens = op.node().opset < 13;
  const auto first = static_cast<size_t>(op.axis_at(op.node().int_or("axis", flattens ? 1 : -1), rank));
  std::vector<size_t> over = {first};
  for (size_t i = first + 1; flattens && i < rank; ++i) {
    if (!op.axes(0)[i].empty()) over.push_back(i);
  }
  return over;
}

bool is_over_keys(NodeLabeler& op, const std::vector<size_t>& over) {
  if (!op.is("Softmax") || !op.any_score() || over.size() != 1) return false;
  const Axis& axis = op.axes(0)[over.front()];
  return axis == Axis{factor(kTotal)} || axis == Axis{factor(kSource)} || axis == Axis{factor(kTotalAndSink)};
}

// Scores of a graph without a past that are weighed along what was taken for the queries: it is the other way round.
bool is_over_queries(NodeLabeler& op, const std::vector<size_t>& over) {
  if (!op.is("Softmax") || !op.any_score() || over.size() != 1 || op.labeler().flat().has_past) return false;
  return op.axes(0)[over.front()] == Axis{factor(kNew)} && !op.labeler().labels().keys_on_left;
}

void softmax(NodeLabeler& op) {
  const std::vector<size_t> over = softmax_axes(op);
  if (is_over_queries(op, over)) {
    op.labeler().hints.keys_on_left = true;
    op.labeler().learned = true;
  }
  if (!is_over_keys(op, over)) require_features(op, over);
  op.set_output(0, op.axes(0), op.dtype(0));
  op.emit();
}

void arg_reduce(NodeLabeler& op) {
  const std::vector<size_t> over = {static_cast<size_t>(op.axis_at(op.node().int_or("axis", 0), op.axes(0).size()))};
  require_features(op, over);
  op.set_output(0, without(op.axes(0), over, op.node().int_or("keepdims", 1) != 0), DType::kI64);
  op.emit();
}

void top_k(NodeLabeler& op) {
  Axes axes = op.axes(0);
  const auto at = static_cast<size_t>(op.axis_at(op.node().int_or("axis", -1), axes.size()));
  require_features(op, {at});
  const std::vector<int64_t> k = op.ints(1);
  if (k.size() != 1 || k[0] < 1 || k[0] > row_size(axes[at])) op.refuse("takes an odd number of elements");
  axes[at] = {factor(k[0])};
  op.set_output(0, axes, op.dtype(0));
  op.set_output(1, axes, DType::kI64);
  op.emit();
}

void cumulative(NodeLabeler& op) {
  const std::vector<int64_t> axis = op.ints(1);
  if (axis.size() != 1) op.refuse("names no axis");
  require_features(op, {static_cast<size_t>(op.axis_at(axis[0], op.axes(0).size()))});
  op.set_output(0, op.axes(0), op.dtype(0));
  op.emit();
}

// Normalises everything from an axis on; scale and bias are constants of those axes.
void normalize(NodeLabeler& op) {
  const Axes axes = op.axes(0);
  const auto first = static_cast<size_t>(op.axis_at(op.node().int_or("axis", -1), axes.size()));
  std::vector<size_t> over;
  for (size_t i = first; i < axes.size(); ++i) over.push_back(i);
  require_features(op, over);
  std::vector<Axes> all = {axes};
  for (size_t i = 1; i < op.n_inputs(); ++i) {
    if (op.has(i)) all.push_back(op.fitted(i, axes));
  }
  if (op.broadcast(all) != axes) op.refuse("scale and bias have other axes than the rows");
  const Axes statistics = without(axes, over, true);
  op.set_output(0, axes, op.dtype(0));
  op.set_output(1, statistics, DType::kF32);
  op.set_output(2, statistics, DType::kF32);
  op.emit();
}

// As above on the sum of two rows (and a bias), which is the last output; the ones between are statistics.
void skip_normalize(NodeLabeler& op) {
  const Axes axes = op.axes(0);
  require_features(op, {axes.size() - 1});
  std::vector<Axes> all;
  for (size_t i = 0; i < op.n_inputs(); ++i) {
    if (op.has(i)) all.push_back(op.fitted(i, axes));
  }
  if (op.broadcast(all) != axes) op.refuse("the inputs have other axes than the rows");
  const Axes statistics = without(axes, {axes.size() - 1}, true);
  op.set_output(0, axes, op.dtype(0));
  op.set_output(1, statistics, DType::kF32);
  op.set_output(2, statistics, DType::kF32);
  op.set_output(3, axes, op.dtype(0));
  op.emit();
}

void lp_normalize(NodeLabeler& op) {
  require_features(op, {static_cast<size_t>(op.axis_at(op.node().int_or("axis", -1), op.axes(0).size()))});
  op.set_output(0, op.axes(0), op.dtype(0));
  op.emit();
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
