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

// An embedding: the row selects a part of a constant.
Expected<> look_up(NodeLabeler& op) {
  KVIK_TRY(const Axes table, op.fitted(0, {}));
  for (const Axis& axis : table) {
    if (has_symbol(axis)) return op.refuse("looks up a table that varies with the sizes");
  }
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", 0), table.size()));
  KVIK_TRY(const Axes index, op.axes(1));
  return op.emit_with(spliced(table, at, index), op.dtype(0));
}

// Every index is the last position of this call.
Expected<bool> takes_last(NodeLabeler& op, const Axis& axis) {
  if (axis != Axis{factor(Symbol::kNew)} || op.any_score()) return false;
  KVIK_TRY(const std::vector<std::vector<int64_t>> indices, op.ints_by_size(1));
  for (size_t s = 0; s < indices.size(); ++s) {
    if (indices[s].size() != 1 || (indices[s][0] != -1 && indices[s][0] != op.sizes()[s].fresh - 1)) return false;
  }
  return true;
}

Expected<> take_features(NodeLabeler& op) {
  KVIK_TRY(const Axes axes, op.axes(0));
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", 0), axes.size()));
  KVIK_TRY(const std::vector<Tensor> indices, op.at_sizes(1));
  const Dims& index_dims = indices.front().dims();
  if (has_symbol(axes[at])) {
    KVIK_TRY(const bool is_last, takes_last(op, axes[at]));
    if (!is_last) {
      if (index_dims.size() > 1) return op.refuse("picks from an axis of rows: " + to_string(axes));
      op.poison("picks from an axis of rows: " + to_string(axes));
    }
    Axes inside;
    for (const int64_t size : index_dims) inside.push_back(canonical({factor(std::max<int64_t>(size, 1))}));
    if (is_last) op.mark_last();
    return op.emit_alias(0, spliced(axes, at, inside));
  }
  const int64_t size = row_size(axes[at]);
  KVIK_TRY(const std::vector<int64_t> picked, op.ints(1));
  for (const int64_t index : picked) {
    if (index < -size || index >= size) return op.refuse(fmt::format("picks element {} of {}", index, size));
  }
  Axes inside;
  for (const int64_t count : index_dims) {
    if (count < 1) return op.refuse("picks nothing");
    inside.push_back(canonical({factor(count)}));
  }
  return op.emit_with(spliced(axes, at, inside), op.dtype(0));
}

Expected<> gather(NodeLabeler& op) {
  if (!op.is_row(0)) return look_up(op);
  if (!op.is_row(1)) return take_features(op);
  return gather_selected(op);
}

}  // namespace

void add_gather_rules(RuleTable& table) { table.add("Gather", gather); }

}  // namespace kvik::native
