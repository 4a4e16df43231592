#include <fmt/format.h>

#include "backend/native/label/rules.h"

// Experts that work on the rows that chose them: NonZero selects the rows, Gather reads them, ScatterElements writes them back. For a
// single row, that is one row or none.
namespace kvik::native {
namespace {

bool is_selected(const Axes& axes) { return holds(axes, Symbol::kSelection); }

Expected<> non_zero(NodeLabeler& op) {
  KVIK_TRY(const Axes axes, op.axes(0));
  const int32_t selection = op.labeler().selections().add(op.node().outputs.at(0), axes);
  Axes places = {canonical({factor(static_cast<int64_t>(axes.size()))}), {factor(Symbol::kSelection, selection)}};
  return op.emit_with(std::move(places), DType::kI64);
}

Expected<> one_hot(NodeLabeler& op) {
  KVIK_TRY(Axes axes, op.axes(0));
  KVIK_TRY(const std::vector<int64_t> depth, op.ints(1));
  if (depth.size() != 1 || depth[0] < 1) return op.refuse("has no depth");
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", -1), axes.size() + 1));
  axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(at), {factor(depth[0])});
  return op.emit_with(std::move(axes), op.dtype(2));
}

Expected<> gather_elements(NodeLabeler& op) {
  KVIK_TRY(const Axes index, op.axes(1));
  KVIK_TRY(const Axes data, op.fitted(0, index));
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", 0), data.size()));
  if (index.size() != data.size()) return op.refuse("index and data differ in their number of axes");
  for (size_t i = 0; i < data.size(); ++i) {
    if (i == at ? has_symbol(data[i]) || has_symbol(index[i]) : data[i] != index[i])
      return op.refuse("picks among rows: " + to_string(data));
  }
  return op.emit_with(index, op.dtype(0));
}

// Into features of the same row.
Expected<> scatter_features(NodeLabeler& op, const Axes& data, const Axes& index, size_t at) {
  KVIK_TRY(const Axes updates, op.fitted(2, index));
  for (size_t i = 0; i < data.size(); ++i) {
    if (i == at ? has_symbol(data[i]) || has_symbol(index[i]) : data[i] != index[i])
      return op.refuse("writes among rows: " + to_string(data));
  }
  if (updates != index) return op.refuse("updates and indices have other axes");
  return op.emit_with(data, op.dtype(0));
}

// Rows along axis `at` of `axes`, selected by the i-th coordinate of the index: the mask must have had the same rows.
Expected<Selections::Places> places_of(NodeLabeler& op, size_t index) {
  const Selections::Places* places = op.labeler().selections().places_of(op.node().inputs[index]);
  if (places == nullptr) return op.refuse("gathers rows by an index that is not from a selection");
  return *places;
}

Expected<> require_place(NodeLabeler& op, const Selections::Places& places, size_t i, const Axis& axis) {
  if (op.labeler().selections().axis_of(places, i) != axis)
    return op.refuse(
        fmt::format("uses a place among {} as one among {}", to_string(op.labeler().selections().axis_of(places, i)), to_string(axis)));
  return {};
}

// One element or row for each list of places: [chosen, n] picks along the first n axes.
Expected<> gather_nd(NodeLabeler& op) {
  if (!op.is_row(1)) return gather_places(op);
  if (op.node().int_or("batch_dims", 0) != 0) return op.refuse("picks in batches");
  KVIK_TRY(const Axes data, op.axes(0));
  KVIK_TRY(const Axes index, op.axes(1));
  KVIK_TRY(const Selections::Places places, places_of(op, 1));
  const size_t n = places.axes.size();
  if (index.size() < 2 || row_size(index.back()) != static_cast<int64_t>(n) || n > data.size()) return op.refuse("picks by an odd index");
  for (size_t i = 0; i < n; ++i) KVIK_CHECK(require_place(op, places, i, data[i]));
  Axes result(index.begin(), index.end() - 1);
  result.insert(result.end(), data.begin() + static_cast<std::ptrdiff_t>(n), data.end());
  return op.emit_with(std::move(result), op.dtype(0));
}

Expected<> require_known_reduction(NodeLabeler& op) {
  const std::string_view reduction = op.node().string_or("reduction", "none");
  if (reduction != "none" && reduction != "add") return op.refuse(fmt::format("puts rows back by '{}'", reduction));
  return {};
}

// The rows that data has where the updates have chosen ones.
Expected<Axes> all_rows(NodeLabeler& op, const Axes& updates, size_t at, const Axis& rows) {
  Axes like = updates;
  like[at] = rows;
  KVIK_TRY(Axes data, op.fitted(0, like));
  if (data != like) return op.refuse(fmt::format("puts {} back into {}", to_string(updates), to_string(data)));
  return data;
}

Expected<> scatter_selected(NodeLabeler& op) {
  KVIK_CHECK(require_known_reduction(op));
  KVIK_TRY(const Axes index, op.axes(1));
  KVIK_TRY(const Axes updates, op.axes(2));
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", 0), index.size()));
  KVIK_TRY(const Selections::Places places, places_of(op, 1));
  if (places.axes.size() != 1 || index != updates || index[at].size() != 1) return op.refuse("puts rows back by an odd index");
  KVIK_TRY(const Axes data, all_rows(op, updates, at, op.labeler().selections().axis_of(places, 0)));
  return op.emit_with(data, op.dtype(2));
}

Expected<> scatter_nd(NodeLabeler& op) {
  if (!op.is_row(1)) return scatter_places(op);
  KVIK_CHECK(require_known_reduction(op));
  KVIK_TRY(const Axes index, op.axes(1));
  KVIK_TRY(const Axes updates, op.axes(2));
  KVIK_TRY(const Selections::Places places, places_of(op, 1));
  const bool one_place = places.axes.size() == 1 && index.size() == 2 && index[1].empty();
  if (!one_place || updates.empty() || updates[0] != index[0]) return op.refuse("puts rows back by an odd index");
  KVIK_TRY(const Axes data, all_rows(op, updates, 0, op.labeler().selections().axis_of(places, 0)));
  return op.emit_with(data, op.dtype(2));
}

Expected<> scatter_elements(NodeLabeler& op) {
  KVIK_TRY(const Axes index, op.axes(1));
  const Axes rows = op.is_row(0) ? op.label(0).axes : index;
  if (is_selected(index)) return scatter_selected(op);
  KVIK_TRY(const Axes data, op.fitted(0, rows));
  if (index.size() != data.size()) return op.refuse("index and data differ in their number of axes");
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", 0), data.size()));
  return scatter_features(op, data, index, at);
}

}  // namespace

Expected<> gather_selected(NodeLabeler& op) {
  KVIK_TRY(const Axes data, op.axes(0));
  KVIK_TRY(const Axes index, op.axes(1));
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", 0), data.size()));
  KVIK_TRY(const Selections::Places places, places_of(op, 1));
  if (places.axes.size() != 1) return op.refuse("fetches rows by several places at once");
  KVIK_CHECK(require_place(op, places, 0, data[at]));
  Axes result(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(at));
  result.insert(result.end(), index.begin(), index.end());
  result.insert(result.end(), data.begin() + static_cast<std::ptrdiff_t>(at) + 1, data.end());
  return op.emit_with(std::move(result), op.dtype(0));
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
