#include <algorithm>
#include <fmt/format.h>

#include "backend/native/rows/rules.h"
#include "onnx/eval/ops/common.h"

// Concatenation joins features, or appends what is new to the past. Seen from a position, the past and the new rows together hold at that
// position what was new when it was computed: an append is only another name for the new row.
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

// The axes of past and new together, as what is new tells them.
std::optional<Axes> appended(Step& step, size_t past, size_t fresh, size_t at) {
  if (!step.is_row(past) || !step.is_row(fresh)) return std::nullopt;
  const Axes& old_axes = step.axes(past);
  const Axes& new_axes = step.axes(fresh);
  if (old_axes.size() != new_axes.size() || !holds(old_axes[at], kPast)) return std::nullopt;
  Axes result = new_axes;
  if (step.one_token()) {
    if (!new_axes[at].empty()) return std::nullopt;
    result[at] = {factor(kTotal)};
  } else {
    if (!holds(new_axes[at], kNew)) return std::nullopt;
    result = renamed(new_axes, kNew, kTotal);
  }
  return result;
}

void append(Step& step, const Axes& result) {
  const onnx::ValueId past = step.node().inputs[0];
  const Axes wanted = renamed(result, kTotal, kPast);
  if (step.axes(0) != wanted) {
    const FlatGraph::Input* input = step.walk().flat().input_of(past);
    if (input == nullptr)
      step.refuse(fmt::format("the past {} does not line up with what is appended, {}", to_string(step.axes(0)), to_string(step.axes(1))));
    // Known from now on; labels that were made without it are made again.
    step.walk().past_axes[past] = wanted;
    step.walk().learned_past = true;
  }
  step.walk().appends.push_back({past, step.node().inputs[1]});
  step.give(0, result, step.dtype(1));
  step.emit_alias(1);
}

// A column beside the keys that takes weight and gives no value.
bool adds_sink(Step& step, size_t at) {
  if (step.n_inputs() != 2 || !step.is_row(0) || step.is_row(1) || !step.label(0).is_score) return false;
  if (step.axes(0)[at] != Axis{factor(kTotal)}) return false;
  const Axes column = step.fitted(1, step.axes(0));
  return column.size() == step.axes(0).size() && column[at].empty();
}

void join_features(Step& step, size_t at, size_t rank) {
  std::vector<Axes> others;
  int64_t total = 0;
  Axes like;
  for (size_t i = 0; i < step.n_inputs(); ++i) {
    if (step.is_row(i)) like = step.axes(i);
  }
  like[at] = {};
  for (size_t i = 0; i < step.n_inputs(); ++i) {
    Axes axes = step.fitted(i, like);
    if (axes.size() != rank) step.refuse("the inputs differ in their number of axes");
    if (has_symbol(axes[at])) step.refuse("concatenates along an axis of rows: " + to_string(axes));
    total += row_size(axes[at]);
    axes[at] = {};
    others.push_back(std::move(axes));
  }
  Axes result = step.broadcast(others);
  result[at] = {factor(total)};
  step.give(0, std::move(result), step.dtype(0));
  step.emit();
}

// One by itself, or nothing and one other: that one.
bool leaves_one(Step& step) {
  size_t kept = step.n_inputs(), n_kept = 0;
  for (size_t i = 0; i < step.n_inputs(); ++i) {
    if (!step.is_empty(i)) kept = i, ++n_kept;
  }
  if (n_kept != 1 || !step.is_row(kept)) return false;
  step.give(0, step.axes(kept), step.dtype(kept));
  step.emit_alias(kept);
  return true;
}

void concat(Step& step) {
  if (step.any_empty() || step.n_inputs() == 1) {
    if (!leaves_one(step)) step.refuse("joins several rows with one that has no elements");
    return;
  }
  size_t rank = 0;
  for (size_t i = 0; i < step.n_inputs(); ++i) {
    if (step.is_row(i)) rank = step.axes(i).size();
  }
  const auto at = static_cast<size_t>(step.axis_at(step.node().int_or("axis", 0), rank));
  if (step.n_inputs() == 2) {
    if (const std::optional<Axes> result = appended(step, 0, 1, at)) return append(step, *result);
    if (adds_sink(step, at)) {
      Axes result = step.axes(0);
      result[at] = {factor(kTotalAndSink)};
      return step.give(0, std::move(result), step.dtype(0));
    }
  }
  join_features(step, at, rank);
}

// The numbers of rows that are written, at every size: past, past + 1, … along axis `at` of the index, or the first one alone.
void require_written_after_past(Step& step, const std::vector<Tensor>& indices, std::optional<size_t> at) {
  for (size_t i = 0; i < step.sizes().size(); ++i) {
    const Sizes& sizes = step.sizes()[i];
    const bool given = i < indices.size();
    if (!given && sizes.past != 0) step.refuse("writes at the start of a buffer that holds a past");
    if (!given) continue;
    const std::vector<int64_t> numbers = onnx::as_ints(indices[i]);
    const int64_t inner = at ? onnx::product(indices[i].dims(), static_cast<int>(*at) + 1, indices[i].rank()) : 1;
    const int64_t n_rows = at ? sizes.fresh : 1;
    for (size_t n = 0; n < numbers.size(); ++n) {
      const int64_t expected = sizes.past + static_cast<int64_t>(n) / inner % n_rows;
      if (numbers[n] != expected) step.refuse(fmt::format("writes row {} where row {} comes next", numbers[n], expected));
    }
  }
}

// Writes what is new into a buffer of fixed capacity, at the positions after the past.
void tensor_scatter(Step& step) {
  if (step.node().string_or("mode", "linear") != "linear") step.refuse("writes into a ring buffer");
  const Axes& update = step.axes(1);
  const auto at = static_cast<size_t>(step.axis_at(step.node().int_or("axis", -2), update.size()));
  if (step.one_token() ? !update[at].empty() : update[at] != Axis{factor(kNew)}) step.refuse("writes along " + to_string(update[at]));
  Axes result = renamed(update, kNew, kTotal);
  result[at] = {factor(kTotal)};
  require_written_after_past(step, step.has(2) ? step.walk().at_sizes(step.node().inputs[2]) : std::vector<Tensor>(), {});
  step.give(0, std::move(result), step.dtype(1));
  step.emit_alias(1);
}

// Rows of a buffer, chosen by number: those after the past.
void write_rows(Step& step, size_t at) {
  if (step.node().string_or("reduction", "none") != "none") step.refuse("adds to what the buffer holds");
  if (step.is_row(1)) step.refuse("writes where rows say");
  const Axes& update = step.axes(2);
  const Axis fresh = step.one_token() ? Axis{} : Axis{factor(kNew)};
  if (update.size() <= at || update[at] != fresh) step.refuse("writes along another axis than that of new rows: " + to_string(update));
  Axes result = renamed(update, kNew, kTotal);
  result[at] = {factor(kTotal)};
  if (step.axes(0) != renamed(result, kTotal, kPast)) {
    step.refuse(fmt::format("the buffer {} does not line up with what is written, {}", to_string(step.axes(0)), to_string(update)));
  }
  require_written_after_past(step, step.walk().at_sizes(step.node().inputs[1]), at);
  step.walk().appends.push_back({step.node().inputs[0], step.node().inputs[2]});
  step.give(0, std::move(result), step.dtype(2));
  step.emit_alias(2);
}

}  // namespace

bool writes_into_past(Step& step) {
  return (step.is("ScatterND") || step.is("ScatterElements")) && step.walk().flat().buffer > 0 && step.n_inputs() == 3 && step.is_row(0) &&
         step.is_row(2) && holds(step.axes(0), kPast);
}

void write_into_past(Step& step) {
  if (step.is("ScatterND")) return write_rows(step, 0);
  write_rows(step, static_cast<size_t>(step.axis_at(step.node().int_or("axis", 0), step.axes(0).size())));
}

void add_concat_rules(RuleTable& table) {
  table.add("Concat", concat);
  table.add("TensorScatter", tensor_scatter);
}

}  // namespace kvik::native
