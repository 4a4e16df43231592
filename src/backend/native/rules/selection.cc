#include <algorithm>
#include <fmt/format.h>

#include "backend/native/rules.h"

// Experts that work on the rows that chose them: NonZero says which those are, Gather fetches them, ScatterElements puts them back. For a
// row by itself that is one row or none.
namespace kvik::native {
namespace {

bool is_selected(const Axes& axes) { return holds(axes, Symbol::kSelection); }

void non_zero(Step& step) {
  const Axes& axes = step.axes(0);
  const int32_t selection = step.walk().add_selection(axes);
  step.give(0, {canonical({factor(static_cast<int64_t>(axes.size()))}), {factor(Symbol::kSelection, selection)}}, DType::kI64);
  step.emit();
}

void one_hot(Step& step) {
  Axes axes = step.axes(0);
  const std::vector<int64_t> depth = step.ints(1);
  if (depth.size() != 1 || depth[0] < 1) step.refuse("has no depth");
  const int at = step.axis_at(step.node().int_or("axis", -1), axes.size() + 1);
  axes.insert(axes.begin() + at, {factor(depth[0])});
  step.give(0, std::move(axes), step.dtype(2));
  step.emit();
}

void gather_elements(Step& step) {
  const Axes index = step.axes(1);
  const Axes data = step.fitted(0, index);
  const auto at = static_cast<size_t>(step.axis_at(step.node().int_or("axis", 0), data.size()));
  if (index.size() != data.size()) step.refuse("index and data differ in their number of axes");
  for (size_t i = 0; i < data.size(); ++i) {
    if (i == at ? has_symbol(data[i]) || has_symbol(index[i]) : data[i] != index[i]) step.refuse("picks among rows: " + to_string(data));
  }
  step.give(0, index, step.dtype(0));
  step.emit();
}

// Into features of the same row.
void scatter_features(Step& step, const Axes& data, const Axes& index, size_t at) {
  const Axes updates = step.fitted(2, index);
  for (size_t i = 0; i < data.size(); ++i) {
    if (i == at ? has_symbol(data[i]) || has_symbol(index[i]) : data[i] != index[i]) step.refuse("writes among rows: " + to_string(data));
  }
  if (updates != index) step.refuse("updates and indices have other axes");
  step.give(0, data, step.dtype(0));
  step.emit();
}

void scatter_elements(Step& step) {
  const Axes index = step.axes(1);
  const Axes rows = step.is_row(0) ? step.axes(0) : index;
  if (is_selected(index)) return scatter_selected(step);
  const Axes data = step.fitted(0, rows);
  if (index.size() != data.size()) step.refuse("index and data differ in their number of axes");
  scatter_features(step, data, index, static_cast<size_t>(step.axis_at(step.node().int_or("axis", 0), data.size())));
}

}  // namespace

void add_selection_rules(RuleTable& table) {
  table.add("NonZero", non_zero);
  table.add("OneHot", one_hot);
  table.add("GatherElements", gather_elements);
  table.add("ScatterElements", scatter_elements);
}

void gather_selected(Step& step) { step.refuse("picks rows by rows"); }

void scatter_selected(Step& step) { step.refuse("writes rows by rows"); }

}  // namespace kvik::native
