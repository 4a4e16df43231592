#include <algorithm>
#include <fmt/format.h>

#include "backend/native/label/rules.h"

namespace kvik::native {
namespace {

Axes spliced(const Axes& around, size_t at, const Axes& inside) {
  Axes result(around.begin(), around.begin() + static_cast<std::ptrdiff_t>(at));
  result.insert(result.end(), inside.begin(), inside.end());
  result.insert(result.end(), around.begin() + static_cast<std::ptrdiff_t>(at) + 1, around.end());
  return result;
}

// An embedding: the row says which part of a constant is taken.
void look_up(NodeLabeler& op) {
  const Axes table = op.fitted(0, {});
  for (const Axis& axis : table) {
    if (has_symbol(axis)) op.refuse("looks up a table that varies with the sizes");
  }
  const auto at = static_cast<size_t>(op.axis_at(op.node().int_or("axis", 0), table.size()));
  op.set_output(0, spliced(table, at, op.axes(1)), op.dtype(0));
  op.emit();
}

// Every index names the last position of this call.
bool takes_last(NodeLabeler& op, const Axis& axis) {
  if (axis != Axis{factor(Symbol::kNew)} || op.any_score()) return false;
  const std::vector<std::vector<int64_t>> indices = op.ints_by_size(1);
  for (size_t s = 0; s < indices.size(); ++s) {
    if (indices[s].size() != 1 || (indices[s][0] != -1 && indices[s][0] != op.sizes()[s].fresh - 1)) return false;
  }
  return true;
}

void take_features(NodeLabeler& op) {
  const Axes& axes = op.axes(0);
  const auto at = static_cast<size_t>(op.axis_at(op.node().int_or("axis", 0), axes.size()));
  const Dims index_dims = op.labeler().at_sizes(op.node().inputs[1]).front().dims();
  if (has_symbol(axes[at])) {
    if (!takes_last(op, axes[at])) {
      if (index_dims.size() > 1) op.refuse("picks from an axis of rows: " + to_string(axes));
      op.poison("picks from an axis of rows: " + to_string(axes));
    }
    Axes inside;
    for (const int64_t size : index_dims) inside.push_back(canonical({factor(std::max<int64_t>(size, 1))}));
    if (takes_last(op, axes[at])) op.mark_last();
    op.set_output(0, spliced(axes, at, inside), op.dtype(0));
    return op.emit_reshape(0);
  }
  const int64_t size = row_size(axes[at]);
  for (const int64_t index : op.ints(1)) {
    if (index < -size || index >= size) op.refuse(fmt::format("picks element {} of {}", index, size));
  }
  Axes inside;
  for (const int64_t count : index_dims) {
    if (count < 1) op.refuse("picks nothing");
    inside.push_back(canonical({factor(count)}));
  }
  op.set_output(0, spliced(axes, at, inside), op.dtype(0));
  op.emit();
}

void gather(NodeLabeler& op) {
  if (!op.is_row(0)) return look_up(op);
  if (!op.is_row(1)) return take_features(op);
  gather_selected(op);
}

}  // namespace

void add_gather_rules(RuleTable& table) { table.add("Gather", gather); }

}  // namespace kvik::native
