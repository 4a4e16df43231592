#include <algorithm>
#include <fmt/format.h>

#include "backend/native/label/rules.h"
#include "onnx/eval/ops/common.h"

// Concatenation joins features, or appends new rows to the past. At each position, the past and the new rows together contain the row that
// was new when it was computed, so an append is an alias of the new row.
namespace kvik::native {
namespace {

using enum Symbol;

Axes renamed(Axes axes, Symbol from, Symbol to) {
  for (Axis& axis : axes) {
    for (Factor& one : axis) {
      if (one == factor(from)) one.symbol = to;
    }
  }
  return axes;
}

// The axes of past and new together, derived from the new part.
std::optional<Axes> appended(const NodeLabeler& op, size_t past, size_t fresh, size_t at) {
  if (!op.is_row(past) || !op.is_row(fresh)) return std::nullopt;
  const Axes &old_axes = op.label(past).axes, &new_axes = op.label(fresh).axes;
  if (old_axes.size() != new_axes.size() || !holds(old_axes[at], kPast)) return std::nullopt;
  Axes result = new_axes;
  if (op.one_token()) {
    if (!new_axes[at].empty()) return std::nullopt;
    result[at] = {factor(kTotal)};
  } else {
    if (!holds(new_axes[at], kNew)) return std::nullopt;
    result = renamed(new_axes, kNew, kTotal);
  }
  return result;
}

Expected<> append(NodeLabeler& op, const Axes& result) {
  const onnx::ValueId past = op.node().inputs[0];
  const Axes wanted = renamed(result, kTotal, kPast);
  const Axes known = op.label(0).axes;
  if (known != wanted) {
    const FlatGraph::Input* input = op.labeler().flat().input_of(past);
    if (input == nullptr)
      return op.refuse(
          fmt::format("the past {} does not line up with what is appended, {}", to_string(known), to_string(op.label(1).axes)));
    // Known from now on; labels that were derived without it are derived again.
    op.labeler().hints.past_axes[past] = wanted;
    op.labeler().learned = true;
  }
  op.labeler().result.appends.push_back({past, op.node().inputs[1]});
  return op.emit_alias(1, result);
}

// An additional column with weight but without a value: an attention sink.
Expected<bool> adds_sink(NodeLabeler& op, size_t at) {
  if (op.n_inputs() != 2 || !op.is_row(0) || op.is_row(1) || !op.label(0).is_score) return false;
  const Axes scores = op.label(0).axes;
  if (scores[at] != Axis{factor(kTotal)}) return false;
  KVIK_TRY(const Axes column, op.fitted(1, scores));
  return column.size() == scores.size() && column[at].empty();
}

Expected<> join_features(NodeLabeler& op, size_t at, size_t rank) {
  std::vector<Axes> others;
  int64_t total = 0;
  Axes like;
  for (size_t i = 0; i < op.n_inputs(); ++i) {
    if (op.is_row(i)) like = op.label(i).axes;
  }
  like[at] = {};
  for (size_t i = 0; i < op.n_inputs(); ++i) {
    KVIK_TRY(Axes axes, op.fitted(i, like));
    if (axes.size() != rank) return op.refuse("the inputs differ in their number of axes");
    if (has_symbol(axes[at])) return op.refuse("concatenates along an axis of rows: " + to_string(axes));
    total += row_size(axes[at]);
    axes[at] = {};
    others.push_back(std::move(axes));
  }
  KVIK_TRY(Axes result, op.broadcast(others));
  result[at] = {factor(total)};
  return op.emit_with(std::move(result), op.dtype(0));
}

// One by itself, beside others without elements: that one.
Expected<> leave_one(NodeLabeler& op) {
  size_t kept = op.n_inputs(), n_kept = 0;
  for (size_t i = 0; i < op.n_inputs(); ++i) {
    if (!op.is_empty(i)) kept = i, ++n_kept;
  }
  if (n_kept != 1 || !op.is_row(kept)) return op.refuse("joins several rows with one that has no elements");
  return op.emit_alias(kept, op.axes(kept));
}

Expected<> concat(NodeLabeler& op) {
  if (op.any_empty() || op.n_inputs() == 1) return leave_one(op);
  size_t rank = 0;
  for (size_t i = 0; i < op.n_inputs(); ++i) {
    if (op.is_row(i)) rank = op.label(i).axes.size();
  }
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", 0), rank));
  if (op.n_inputs() == 2) {
    if (const std::optional<Axes> result = appended(op, 0, 1, at)) return append(op, *result);
    KVIK_TRY(const bool is_sink, adds_sink(op, at));
    if (is_sink) {
      KVIK_TRY(Axes result, op.axes(0));
      result[at] = {factor(kTotalAndSink)};
      return op.set_output(0, std::move(result), op.dtype(0));
    }
  }
  return join_features(op, at, rank);
}

// The numbers of rows that are written, at every size: past, past + 1, … along axis `at` of the index, or the first one alone.
Expected<> require_written_after_past(NodeLabeler& op, const std::vector<Tensor>& indices, std::optional<size_t> at) {
  for (size_t i = 0; i < op.sizes().size(); ++i) {
    const Sizes& sizes = op.sizes()[i];
    const bool given = i < indices.size();
    if (!given && sizes.past != 0) return op.refuse("writes at the start of a buffer that holds a past");
    if (!given) continue;
    const std::vector<int64_t> numbers = onnx::as_ints(indices[i]);
    const int64_t inner = at ? onnx::product(indices[i].dims(), static_cast<int>(*at) + 1, indices[i].rank()) : 1;
    const int64_t n_rows = at ? sizes.fresh : 1;
    for (size_t n = 0; n < numbers.size(); ++n) {
      const int64_t expected = sizes.past + static_cast<int64_t>(n) / inner % n_rows;
      if (numbers[n] != expected) return op.refuse(fmt::format("writes row {} where row {} is expected", numbers[n], expected));
    }
  }
  return {};
}

// Writes what is new into a buffer of fixed capacity, at the positions after the past.
Expected<> tensor_scatter(NodeLabeler& op) {
  if (op.node().string_or("mode", "linear") != "linear") return op.refuse("writes into a ring buffer");
  KVIK_TRY(const Axes update, op.axes(1));
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", -2), update.size()));
  if (op.one_token() ? !update[at].empty() : update[at] != Axis{factor(kNew)}) return op.refuse("writes along " + to_string(update[at]));
  Axes result = renamed(update, kNew, kTotal);
  result[at] = {factor(kTotal)};
  KVIK_TRY(const std::vector<Tensor> indices, op.has(2) ? op.at_sizes(2) : std::vector<Tensor>());
  KVIK_CHECK(require_written_after_past(op, indices, {}));
  return op.emit_alias(1, std::move(result));
}

// All coordinates of what is written, along the first axes of the buffer: each sequence, head and feature at its own place, and positions
// after the past at axis `at`.
Expected<> require_own_places(NodeLabeler& op, size_t n_coordinates, size_t at) {
  KVIK_TRY(const std::vector<Tensor> indices, op.at_sizes(1));
  KVIK_TRY(const Axes update, op.axes(2));
  for (size_t s = 0; s < indices.size(); ++s) {
    const Sizes& sizes = op.sizes()[s];
    const Dims& dims = indices[s].dims();
    Dims expected = sizes.of(update);
    expected.resize(n_coordinates);
    expected.push_back(static_cast<int64_t>(n_coordinates));
    if (dims != expected)
      return op.refuse(fmt::format("writes with an index of shape {}; {} was expected", to_string(dims), to_string(expected)));
    const std::vector<int64_t> numbers = onnx::as_ints(indices[s]);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto axis = static_cast<int>(i % n_coordinates);
      const auto place = static_cast<int64_t>(i / n_coordinates);
      const int64_t own = place / onnx::product(dims, axis + 1, indices[s].rank() - 1) % dims[static_cast<size_t>(axis)];
      const int64_t wanted = static_cast<size_t>(axis) == at ? sizes.past + own : own;
      if (numbers[i] != wanted)
        return op.refuse(fmt::format("writes to place {} of axis {} where {} comes next", numbers[i], axis, wanted));
    }
  }
  return {};
}

// Rows of a buffer, selected by index: those after the past. `n_coordinates`: of the index of a ScatterND; 0: it names positions alone.
Expected<> write_rows(NodeLabeler& op, size_t at, size_t n_coordinates) {
  if (op.node().string_or("reduction", "none") != "none") return op.refuse("adds to the contents of the buffer");
  if (op.is_row(1)) return op.refuse("writes at positions that depend on rows");
  KVIK_TRY(const Axes update, op.axes(2));
  const Axis fresh = op.one_token() ? Axis{} : Axis{factor(kNew)};
  if (update.size() <= at || update[at] != fresh) return op.refuse("writes along another axis than that of new rows: " + to_string(update));
  Axes result = renamed(update, kNew, kTotal);
  result[at] = {factor(kTotal)};
  KVIK_TRY(const Axes buffer, op.axes(0));
  if (buffer != (op.labeler().flat().cut_buffer ? result : renamed(result, kTotal, kPast))) {
    return op.refuse(fmt::format("the buffer {} does not line up with what is written, {}", to_string(buffer), to_string(update)));
  }
  if (n_coordinates > 0) {
    KVIK_CHECK(require_own_places(op, n_coordinates, at));
  } else {
    KVIK_TRY(const std::vector<Tensor> indices, op.at_sizes(1));
    KVIK_CHECK(require_written_after_past(op, indices, at));
  }
  op.labeler().result.appends.push_back({op.node().inputs[0], op.node().inputs[2]});
  return op.emit_alias(2, std::move(result));
}

}  // namespace

bool writes_into_past(NodeLabeler& op) {
  return (op.is("ScatterND") || op.is("ScatterElements")) && op.labeler().flat().buffer > 0 && op.n_inputs() == 3 && op.is_row(0) &&
         op.is_row(2) && holds(op.label(0).axes, kPast);
}

Expected<> write_into_past(NodeLabeler& op) {
  KVIK_TRY(const Axes buffer, op.axes(0));
  if (op.is("ScatterElements")) {
    KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", 0), buffer.size()));
    return write_rows(op, at, 0);
  }
  KVIK_TRY(const Axes index, op.fitted(1, {}));
  const auto n = index.empty() || has_symbol(index.back()) ? 0 : static_cast<size_t>(std::max<int64_t>(1, row_size(index.back())));
  const Symbol positions = op.labeler().flat().cut_buffer ? kTotal : kPast;
  const auto at =
      static_cast<size_t>(std::ranges::find_if(buffer, [&](const Axis& axis) { return holds(axis, positions); }) - buffer.begin());
  if (at >= n || n > buffer.size())
    return op.refuse(fmt::format("writes into {} by {} coordinates, which do not name a position", to_string(buffer), n));
  return write_rows(op, at, n);
}

void add_concat_rules(RuleTable& table) {
  table.add("Concat", concat);
  table.add("TensorScatter", tensor_scatter);
}

}  // namespace kvik::native
