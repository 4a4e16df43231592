#include <algorithm>
#include <fmt/format.h>

#include "backend/native/rows/rules.h"

namespace kvik::native {
namespace {

Axes spliced(const Axes& around, size_t at, const Axes& inside) {
  Axes result(around.begin(), around.begin() + static_cast<std::ptrdiff_t>(at));
  result.insert(result.end(), inside.begin(), inside.end());
  result.insert(result.end(), around.begin() + static_cast<std::ptrdiff_t>(at) + 1, around.end());
  return result;
}

// An embedding: the row says which part of a constant is taken.
void look_up(Step& step) {
  const Axes table = step.fitted(0, {});
  for (const Axis& axis : table) {
    if (has_symbol(axis)) step.refuse("looks up a table that varies with the sizes");
  }
  const auto at = static_cast<size_t>(step.axis_at(step.node().int_or("axis", 0), table.size()));
  step.give(0, spliced(table, at, step.axes(1)), step.dtype(0));
  step.emit();
}

// Every index names the last position of this call.
bool takes_last(Step& step, const Axis& axis) {
  if (axis != Axis{factor(Symbol::kNew)} || step.any_score()) return false;
  const std::vector<std::vector<int64_t>> indices = step.ints_by_size(1);
  for (size_t s = 0; s < indices.size(); ++s) {
    if (indices[s].size() != 1 || (indices[s][0] != -1 && indices[s][0] != step.sizes()[s].fresh - 1)) return false;
  }
  return true;
}

void take_features(Step& step) {
  const Axes& axes = step.axes(0);
  const auto at = static_cast<size_t>(step.axis_at(step.node().int_or("axis", 0), axes.size()));
  const Dims index_dims = step.walk().at_sizes(step.node().inputs[1]).front().dims();
  if (has_symbol(axes[at])) {
    if (!takes_last(step, axes[at])) {
      if (index_dims.size() > 1) step.refuse("picks from an axis of rows: " + to_string(axes));
      step.poison("picks from an axis of rows: " + to_string(axes));
    }
    Axes inside;
    for (const int64_t size : index_dims) inside.push_back(canonical({factor(std::max<int64_t>(size, 1))}));
    if (takes_last(step, axes[at])) step.mark_last();
    step.give(0, spliced(axes, at, inside), step.dtype(0));
    return step.emit_reshape(0);
  }
  const int64_t size = row_size(axes[at]);
  for (const int64_t index : step.ints(1)) {
    if (index < -size || index >= size) step.refuse(fmt::format("picks element {} of {}", index, size));
  }
  Axes inside;
  for (const int64_t count : index_dims) {
    if (count < 1) step.refuse("picks nothing");
    inside.push_back(canonical({factor(count)}));
  }
  step.give(0, spliced(axes, at, inside), step.dtype(0));
  step.emit();
}

void gather(Step& step) {
  if (!step.is_row(0)) return look_up(step);
  if (!step.is_row(1)) return take_features(step);
  gather_selected(step);
}

}  // namespace

void add_gather_rules(RuleTable& table) { table.add("Gather", gather); }

}  // namespace kvik::native
