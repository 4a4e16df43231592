#include <algorithm>
#include <fmt/format.h>

#include "backend/native/rows/rules.h"

// Experts that work on the rows that chose them: NonZero says which those are, Gather fetches them, ScatterElements puts them back. For a
// row by itself that is one row or none.
namespace kvik::native {
namespace {

bool is_selected(const Axes& axes) { return holds(axes, Symbol::kSelection); }

void non_zero(Step& step) {
  const Axes& axes = step.axes(0);
  const int32_t selection = step.walk().choices().add(step.node().outputs.at(0), axes);
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

// Rows of axis `at` of `axes`, where the i-th place of the index says which: the mask must have had these very rows.
const Choices::Places& require_places(Step& step, size_t index) {
  const Choices::Places* places = step.walk().choices().places_of(step.node().inputs[index]);
  if (places == nullptr) step.refuse("fetches rows by an index that no selection made");
  return *places;
}

void require_place(Step& step, const Choices::Places& places, size_t i, const Axis& axis) {
  if (step.walk().choices().axis_of(places, i) != axis)
    step.refuse(fmt::format("uses a place among {} as one among {}", to_string(step.walk().choices().axis_of(places, i)), to_string(axis)));
}

// One element or row for each list of places: [chosen, n] picks along the first n axes.
void gather_nd(Step& step) {
  if (!step.is_row(1)) return gather_places(step);
  if (step.node().int_or("batch_dims", 0) != 0) step.refuse("picks in batches");
  const Axes &data = step.axes(0), &index = step.axes(1);
  const Choices::Places& places = require_places(step, 1);
  const size_t n = places.axes.size();
  if (index.size() < 2 || row_size(index.back()) != static_cast<int64_t>(n) || n > data.size()) step.refuse("picks by an odd index");
  for (size_t i = 0; i < n; ++i) require_place(step, places, i, data[i]);
  Axes result(index.begin(), index.end() - 1);
  result.insert(result.end(), data.begin() + static_cast<std::ptrdiff_t>(n), data.end());
  step.give(0, std::move(result), step.dtype(0));
  step.emit();
}

void require_known_reduction(Step& step) {
  const std::string_view reduction = step.node().string_or("reduction", "none");
  if (reduction != "none" && reduction != "add") step.refuse(fmt::format("puts rows back by '{}'", reduction));
}

// The rows that data has where the updates have chosen ones.
Axes all_rows(Step& step, const Axes& updates, size_t at, const Axis& rows) {
  Axes like = updates;
  like[at] = rows;
  Axes data = step.fitted(0, like);
  if (data != like) step.refuse(fmt::format("puts {} back into {}", to_string(updates), to_string(data)));
  return data;
}

void scatter_selected(Step& step) {
  require_known_reduction(step);
  const Axes &index = step.axes(1), &updates = step.axes(2);
  const auto at = static_cast<size_t>(step.axis_at(step.node().int_or("axis", 0), index.size()));
  const Choices::Places& places = require_places(step, 1);
  if (places.axes.size() != 1 || index != updates || index[at].size() != 1) step.refuse("puts rows back by an odd index");
  const Axes data = all_rows(step, updates, at, step.walk().choices().axis_of(places, 0));
  step.give(0, data, step.dtype(2));
  step.emit();
}

void scatter_nd(Step& step) {
  if (!step.is_row(1)) return scatter_places(step);
  require_known_reduction(step);
  const Axes &index = step.axes(1), &updates = step.axes(2);
  const Choices::Places& places = require_places(step, 1);
  const bool one_place = places.axes.size() == 1 && index.size() == 2 && index[1].empty();
  if (!one_place || updates.empty() || updates[0] != index[0]) step.refuse("puts rows back by an odd index");
  const Axes data = all_rows(step, updates, 0, step.walk().choices().axis_of(places, 0));
  step.give(0, data, step.dtype(2));
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

void gather_selected(Step& step) {
  const Axes &data = step.axes(0), &index = step.axes(1);
  const auto at = static_cast<size_t>(step.axis_at(step.node().int_or("axis", 0), data.size()));
  const Choices::Places& places = require_places(step, 1);
  if (places.axes.size() != 1) step.refuse("fetches rows by several places at once");
  require_place(step, places, 0, data[at]);
  Axes result(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(at));
  result.insert(result.end(), index.begin(), index.end());
  result.insert(result.end(), data.begin() + static_cast<std::ptrdiff_t>(at) + 1, data.end());
  step.give(0, std::move(result), step.dtype(0));
  step.emit();
}

void add_selection_rules(RuleTable& table) {
  table.add("NonZero", non_zero);
  table.add("OneHot", one_hot);
  table.add("GatherElements", gather_elements);
  table.add("GatherND", gather_nd);
  table.add("ScatterElements", scatter_elements);
  table.add("ScatterND", scatter_nd);
}

}  // namespace kvik::native
