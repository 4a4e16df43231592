#include <algorithm>
#include <fmt/format.h>

#include "backend/native/graph/regroup.h"
#include "backend/native/label/rules.h"

// Operators that only change how elements are grouped into axes.
namespace kvik::native {
namespace {

Expected<Dims> resolved_target(NodeLabeler& op, Dims target, const Dims& dims) {
  const int64_t total = element_count(dims);
  int64_t known = 1;
  int64_t* open = nullptr;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == 0 && op.node().int_or("allowzero", 0) == 0 && i < dims.size()) target[i] = dims[i];
    if (target[i] == -1 && open == nullptr) {
      open = &target[i];
    } else if (target[i] < 1 || target[i] > total) {
      return op.refuse(fmt::format("cannot reshape {} to {}", to_string(dims), to_string(target)));
    } else {
      known *= target[i];
      if (known > total) break;
    }
  }
  if (open != nullptr && known <= total) *open = total / known;
  if (checked_elements(target) != total)
    return op.refuse(fmt::format("reshapes {} to {}: a size was baked in at export", to_string(dims), to_string(target)));
  return target;
}

Expected<> set_regrouped(NodeLabeler& op, std::span<const Dims> targets) {
  KVIK_TRY(const Axes axes, op.axes(0));
  const std::optional<Axes> regrouped = regroup(axes, targets, op.sizes());
  if (!regrouped) return op.refuse(fmt::format("cannot group {} as {}", to_string(axes), to_string(targets.front())));
  return op.emit_alias(0, *regrouped);
}

Expected<> reshape(NodeLabeler& op) {
  std::vector<std::vector<int64_t>> wanted(op.sizes().size());
  if (op.node().has("shape")) {
    for (auto& one : wanted) one = op.node().ints_or("shape", {});
  } else {
    KVIK_TRY(wanted, op.ints_by_size(1));
  }
  KVIK_TRY(const Axes axes, op.axes(0));
  std::vector<Dims> targets;
  for (size_t s = 0; s < wanted.size(); ++s) {
    KVIK_TRY(Dims target, resolved_target(op, wanted[s], op.sizes()[s].of(axes)));
    targets.push_back(std::move(target));
  }
  return set_regrouped(op, targets);
}

Expected<> flatten(NodeLabeler& op) {
  KVIK_TRY(const Axes axes, op.axes(0));
  const auto rank = static_cast<int64_t>(axes.size());
  int64_t axis = op.node().int_or("axis", 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) return op.refuse(fmt::format("axis {} of {} axes", axis, rank));
  std::vector<Dims> targets;
  for (const Sizes& sizes : op.sizes()) {
    const Dims dims = sizes.of(axes);
    Dims target = {1, 1};
    for (size_t i = 0; i < dims.size(); ++i) target[static_cast<int64_t>(i) < axis ? 0 : 1] *= dims[i];
    targets.push_back(std::move(target));
  }
  return set_regrouped(op, targets);
}

Expected<> squeeze(NodeLabeler& op) {
  KVIK_TRY(const Axes axes, op.axes(0));
  KVIK_TRY(const std::optional<std::vector<int64_t>> named, op.ints_of("axes", 1));
  std::vector<bool> dropped(axes.size());
  for (size_t i = 0; i < axes.size() && !named; ++i) dropped[i] = axes[i].empty();
  for (const int64_t axis : named.value_or(std::vector<int64_t>())) {
    KVIK_TRY(const size_t at, op.axis_at(axis, axes.size()));
    if (!axes[at].empty()) return op.refuse(fmt::format("squeezes axis {} of {}", axis, to_string(axes)));
    dropped[at] = true;
  }
  Axes kept;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!dropped[i]) kept.push_back(axes[i]);
  }
  return op.emit_alias(0, std::move(kept));
}

Expected<> unsqueeze(NodeLabeler& op) {
  KVIK_TRY(Axes axes, op.axes(0));
  KVIK_TRY(const std::optional<std::vector<int64_t>> named, op.ints_of("axes", 1));
  std::vector<size_t> added;
  for (const int64_t axis : named.value_or(std::vector<int64_t>())) {
    KVIK_TRY(const size_t at, op.axis_at(axis, axes.size() + named->size()));
    added.push_back(at);
  }
  std::sort(added.begin(), added.end());
  for (const size_t at : added) {
    if (at > axes.size()) return op.refuse("names an axis twice");
    axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(at), Axis{});
  }
  return op.emit_alias(0, std::move(axes));
}

}  // namespace

void add_reshape_rules(RuleTable& table) {
  table.add("Reshape", reshape);
  table.add("Flatten", flatten);
  table.add("Squeeze", squeeze);
  table.add("Unsqueeze", unsqueeze);
}

}  // namespace kvik::native
