#include <algorithm>
#include <fmt/format.h>

#include "backend/native/graph/regroup.h"
#include "backend/native/label/rules.h"

// Operators that only say how elements are grouped into axes.
namespace kvik::native {
namespace {

Dims resolved_target(NodeLabeler& op, Dims target, const Dims& dims) {
  const int64_t total = element_count(dims);
  int64_t known = 1;
  int64_t* open = nullptr;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == 0 && op.node().int_or("allowzero", 0) == 0 && i < dims.size()) target[i] = dims[i];
    if (target[i] == -1 && open == nullptr) {
      open = &target[i];
    } else if (target[i] < 1 || target[i] > total) {
      op.refuse(fmt::format("cannot reshape {} to {}", to_string(dims), to_string(target)));
    } else {
      known *= target[i];
      if (known > total) break;
    }
  }
  if (open != nullptr && known <= total) *open = total / known;
  if (checked_elements(target) != total)
    op.refuse(fmt::format("reshapes {} to {}: a size was baked in at export", to_string(dims), to_string(target)));
  return target;
}

void set_regrouped(NodeLabeler& op, std::span<const Dims> targets) {
  const std::optional<Axes> axes = regroup(op.axes(0), targets, op.sizes());
  if (!axes) op.refuse(fmt::format("cannot group {} as {}", to_string(op.axes(0)), to_string(targets.front())));
  op.set_output(0, *axes, op.dtype(0));
  op.emit_reshape(0);
}

void reshape(NodeLabeler& op) {
  std::vector<std::vector<int64_t>> wanted(op.sizes().size());
  if (op.node().has("shape")) {
    for (auto& one : wanted) one = op.node().ints_or("shape", {});
  } else {
    wanted = op.ints_by_size(1);
  }
  std::vector<Dims> targets;
  for (size_t s = 0; s < wanted.size(); ++s) targets.push_back(resolved_target(op, wanted[s], op.sizes()[s].of(op.axes(0))));
  set_regrouped(op, targets);
}

void flatten(NodeLabeler& op) {
  const auto rank = static_cast<int64_t>(op.axes(0).size());
  int64_t axis = op.node().int_or("axis", 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) op.refuse(fmt::format("axis {} of {} axes", axis, rank));
  std::vector<Dims> targets;
  for (const Sizes& sizes : op.sizes()) {
    const Dims dims = sizes.of(op.axes(0));
    Dims target = {1, 1};
    for (size_t i = 0; i < dims.size(); ++i) target[static_cast<int64_t>(i) < axis ? 0 : 1] *= dims[i];
    targets.push_back(std::move(target));
  }
  set_regrouped(op, targets);
}

void squeeze(NodeLabeler& op) {
  const Axes& axes = op.axes(0);
  const std::optional<std::vector<int64_t>> named = op.ints_of("axes", 1);
  std::vector<bool> dropped(axes.size());
  for (size_t i = 0; i < axes.size() && !named; ++i) dropped[i] = axes[i].empty();
  for (const int64_t axis : named.value_or(std::vector<int64_t>())) {
    const auto at = static_cast<size_t>(op.axis_at(axis, axes.size()));
    if (!axes[at].empty()) op.refuse(fmt::format("squeezes axis {} of {}", axis, to_string(axes)));
    dropped[at] = true;
  }
  Axes kept;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!dropped[i]) kept.push_back(axes[i]);
  }
  op.set_output(0, std::move(kept), op.dtype(0));
  op.emit_reshape(0);
}

void unsqueeze(NodeLabeler& op) {
  Axes axes = op.axes(0);
  std::vector<int64_t> named = op.ints_of("axes", 1).value_or(std::vector<int64_t>());
  for (int64_t& axis : named) axis = op.axis_at(axis, axes.size() + named.size());
  std::sort(named.begin(), named.end());
  for (const int64_t axis : named) {
    if (axis > static_cast<int64_t>(axes.size())) op.refuse("names an axis twice");
    axes.insert(axes.begin() + axis, Axis{});
  }
  op.set_output(0, std::move(axes), op.dtype(0));
  op.emit_reshape(0);
}

}  // namespace

void add_reshape_rules(RuleTable& table) {
  table.add("Reshape", reshape);
  table.add("Flatten", flatten);
  table.add("Squeeze", squeeze);
  table.add("Unsqueeze", unsqueeze);
}

}  // namespace kvik::native
