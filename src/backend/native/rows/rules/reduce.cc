#include <algorithm>
#include <fmt/format.h>

#include "backend/native/rows/rules.h"

// Operators that combine the elements of some axes, which must be features of one row: sums, norms, softmax.
namespace kvik::native {
namespace {

using enum Symbol;

constexpr std::string_view kReductions[] = {"ReduceMean", "ReduceSum", "ReduceMax",       "ReduceMin",    "ReduceProd",
                                            "ReduceL1",   "ReduceL2",  "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"};

void require_features(Step& step, const std::vector<size_t>& over) {
  for (const size_t at : over) {
    if (has_symbol(step.axes(0)[at])) step.refuse(fmt::format("combines rows: it works over axis {} of {}", at, to_string(step.axes(0))));
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

std::vector<size_t> reduced_axes(Step& step) {
  const size_t rank = step.axes(0).size();
  std::vector<size_t> over;
  for (const int64_t axis : step.ints_of("axes", 1).value_or(std::vector<int64_t>()))
    over.push_back(static_cast<size_t>(step.axis_at(axis, rank)));
  if (over.empty() && step.node().int_or("noop_with_empty_axes", 0) == 0) {
    for (size_t i = 0; i < rank; ++i) over.push_back(i);
  }
  return over;
}

void reduce(Step& step) {
  const std::vector<size_t> over = reduced_axes(step);
  const bool keeps = step.node().int_or("keepdims", 1) != 0;
  // Scores may be reduced over their keys: it is the attention's own affair, and is probed with it.
  if (!(step.any_score() && keeps)) require_features(step, over);
  step.give(0, without(step.axes(0), over, keeps), step.dtype(0));
  step.emit();
}

// Older opsets flatten everything from the axis on.
std::vector<size_t> softmax_axes(Step& step) {
  const size_t rank = step.axes(0).size();
  const bool flattens = step.node().opset < 13;
  const auto first = static_cast<size_t>(step.axis_at(step.node().int_or("axis", flattens ? 1 : -1), rank));
  std::vector<size_t> over = {first};
  for (size_t i = first + 1; flattens && i < rank; ++i) {
    if (!step.axes(0)[i].empty()) over.push_back(i);
  }
  return over;
}

bool is_over_keys(Step& step, const std::vector<size_t>& over) {
  if (!step.is("Softmax") || !step.any_score() || over.size() != 1) return false;
  const Axis& axis = step.axes(0)[over.front()];
  return axis == Axis{factor(kTotal)} || axis == Axis{factor(kSource)} || axis == Axis{factor(kTotalAndSink)};
}

// Scores of a graph without a past that are weighed along what was taken for the queries: it is the other way round.
bool is_over_queries(Step& step, const std::vector<size_t>& over) {
  if (!step.is("Softmax") || !step.any_score() || over.size() != 1 || step.walk().flat().has_past) return false;
  return step.axes(0)[over.front()] == Axis{factor(kNew)} && !step.walk().labels().keys_on_left;
}

void softmax(Step& step) {
  const std::vector<size_t> over = softmax_axes(step);
  if (is_over_queries(step, over)) step.walk().keys_on_left = true;
  if (!is_over_keys(step, over)) require_features(step, over);
  step.give(0, step.axes(0), step.dtype(0));
  step.emit();
}

void arg_reduce(Step& step) {
  const std::vector<size_t> over = {static_cast<size_t>(step.axis_at(step.node().int_or("axis", 0), step.axes(0).size()))};
  require_features(step, over);
  step.give(0, without(step.axes(0), over, step.node().int_or("keepdims", 1) != 0), DType::kI64);
  step.emit();
}

void top_k(Step& step) {
  Axes axes = step.axes(0);
  const auto at = static_cast<size_t>(step.axis_at(step.node().int_or("axis", -1), axes.size()));
  require_features(step, {at});
  const std::vector<int64_t> k = step.ints(1);
  if (k.size() != 1 || k[0] < 1 || k[0] > row_size(axes[at])) step.refuse("takes an odd number of elements");
  axes[at] = {factor(k[0])};
  step.give(0, axes, step.dtype(0));
  step.give(1, axes, DType::kI64);
  step.emit();
}

void cumulative(Step& step) {
  const std::vector<int64_t> axis = step.ints(1);
  if (axis.size() != 1) step.refuse("names no axis");
  require_features(step, {static_cast<size_t>(step.axis_at(axis[0], step.axes(0).size()))});
  step.give(0, step.axes(0), step.dtype(0));
  step.emit();
}

// Normalises everything from an axis on; scale and bias are constants of those axes.
void normalise(Step& step) {
  const Axes axes = step.axes(0);
  const auto first = static_cast<size_t>(step.axis_at(step.node().int_or("axis", -1), axes.size()));
  std::vector<size_t> over;
  for (size_t i = first; i < axes.size(); ++i) over.push_back(i);
  require_features(step, over);
  std::vector<Axes> all = {axes};
  for (size_t i = 1; i < step.n_inputs(); ++i) {
    if (step.has(i)) all.push_back(step.fitted(i, axes));
  }
  if (step.broadcast(all) != axes) step.refuse("scale and bias have other axes than the rows");
  const Axes statistics = without(axes, over, true);
  step.give(0, axes, step.dtype(0));
  step.give(1, statistics, DType::kF32);
  step.give(2, statistics, DType::kF32);
  step.emit();
}

// As above on the sum of two rows (and a bias), which is the last output; the ones between are statistics.
void skip_normalise(Step& step) {
  const Axes axes = step.axes(0);
  require_features(step, {axes.size() - 1});
  std::vector<Axes> all;
  for (size_t i = 0; i < step.n_inputs(); ++i) {
    if (step.has(i)) all.push_back(step.fitted(i, axes));
  }
  if (step.broadcast(all) != axes) step.refuse("the inputs have other axes than the rows");
  const Axes statistics = without(axes, {axes.size() - 1}, true);
  step.give(0, axes, step.dtype(0));
  step.give(1, statistics, DType::kF32);
  step.give(2, statistics, DType::kF32);
  step.give(3, axes, step.dtype(0));
  step.emit();
}

void lp_normalise(Step& step) {
  require_features(step, {static_cast<size_t>(step.axis_at(step.node().int_or("axis", -1), step.axes(0).size()))});
  step.give(0, step.axes(0), step.dtype(0));
  step.emit();
}

}  // namespace

void add_reduce_rules(RuleTable& table) {
  for (const std::string_view op : kReductions) table.add(op, reduce);
  for (const std::string_view op : {"Softmax", "LogSoftmax"}) table.add(op, softmax);
  for (const std::string_view op : {"ArgMax", "ArgMin"}) table.add(op, arg_reduce);
  table.add("TopK", top_k);
  table.add("CumSum", cumulative);
  for (const std::string_view op : {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"}) table.add(op, normalise);
  for (const std::string_view op : {"SimplifiedLayerNormalization", "LayerNormalization"}) table.add(kMicrosoft, op, normalise);
  for (const std::string_view op : {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"})
    table.add(kMicrosoft, op, skip_normalise);
  table.add("LpNormalization", lp_normalise);
}

}  // namespace kvik::native
