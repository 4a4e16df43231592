#include <algorithm>
#include <fmt/format.h>

#include "backend/native/label/rules.h"

// Operators that permute, repeat and part elements.
namespace kvik::native {
namespace {

constexpr int64_t kMostRepeats = int64_t{1} << 20;

Expected<> transpose(NodeLabeler& op) {
  KVIK_TRY(const Axes axes, op.axes(0));
  std::vector<int64_t> perm = op.node().ints_or("perm", {});
  for (size_t i = axes.size(); perm.size() < axes.size(); --i) perm.push_back(static_cast<int64_t>(i) - 1);
  Axes result;
  for (const int64_t axis : perm) {
    KVIK_TRY(const size_t at, op.axis_at(axis, axes.size()));
    result.push_back(axes[at]);
  }
  if (result.size() != axes.size()) return op.refuse("perm has another number of axes");
  return op.emit_with(std::move(result), op.dtype(0));
}

// What one axis becomes when it is expanded to `wanted`, one number for each set of sizes.
Expected<Axis> expanded_axis(NodeLabeler& op, const Axis& axis, const Dims& wanted) {
  Dims current, batch;
  for (const Sizes& sizes : op.sizes()) {
    current.push_back(sizes.of(axis));
    batch.push_back(sizes.batch);
  }
  const auto all = [](const Dims& dims, int64_t n) { return std::all_of(dims.begin(), dims.end(), [&](int64_t one) { return one == n; }); };
  if (all(wanted, 1) || wanted == current) return axis;
  if (!all(current, 1)) return op.refuse(fmt::format("expands {} to {}", to_string(current), to_string(wanted)));
  if (all(wanted, wanted.front()) && wanted.front() > 1) return Axis{factor(wanted.front())};
  if (wanted == batch) return Axis{factor(Symbol::kBatch)};
  return op.refuse(fmt::format("spreads a row over an axis of {}", to_string(wanted)));
}

Expected<> expand(NodeLabeler& op) {
  KVIK_TRY(const std::vector<std::vector<int64_t>> wanted, op.ints_by_size(1));
  KVIK_TRY(Axes axes, op.axes(0));
  const size_t rank = std::max(axes.size(), wanted.front().size());
  axes.insert(axes.begin(), rank - axes.size(), Axis{});
  const size_t missing = rank - wanted.front().size();
  for (size_t i = missing; i < rank; ++i) {
    Dims sizes;
    for (const std::vector<int64_t>& one : wanted) sizes.push_back(one[i - missing]);
    KVIK_TRY(axes[i], expanded_axis(op, axes[i], sizes));
  }
  return op.emit_with(std::move(axes), op.dtype(0), RowOp::Kind::kExpand);
}

Expected<> tile(NodeLabeler& op) {
  KVIK_TRY(Axes axes, op.axes(0));
  KVIK_TRY(const std::vector<int64_t> repeats, op.ints(1));
  if (repeats.size() != axes.size()) return op.refuse(fmt::format("has {} counts for {} axes", repeats.size(), axes.size()));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (repeats[i] < 1 || repeats[i] > kMostRepeats) return op.refuse(fmt::format("repeats an axis {} times", repeats[i]));
    axes[i].insert(axes[i].begin(), factor(repeats[i]));
  }
  return op.emit_with(std::move(axes), op.dtype(0));
}

// The parts of an axis of `size` if none are specified: equal ones, the last smaller.
std::vector<int64_t> equal_parts(int64_t size, size_t count) {
  const auto n = static_cast<int64_t>(count);
  const int64_t part = (size + n - 1) / n;
  std::vector<int64_t> parts(count, part);
  parts.back() = size - part * (n - 1);
  return parts;
}

Expected<> split(NodeLabeler& op) {
  KVIK_TRY(const Axes axes, op.axes(0));
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", 0), axes.size()));
  if (has_symbol(axes[at])) return op.refuse("splits an axis of rows: " + to_string(axes));
  const int64_t size = row_size(axes[at]);
  const size_t count = op.node().outputs.size();
  KVIK_TRY(const std::optional<std::vector<int64_t>> named, op.ints_of("split", 1));
  const std::vector<int64_t> parts = named.value_or(equal_parts(size, count));
  int64_t total = 0;
  for (const int64_t part : parts) {
    if (part < 1 || part > size) return op.refuse(fmt::format("splits {} into a part of {}", size, part));
    total += part;
  }
  if (parts.size() != count || total != size) return op.refuse(fmt::format("cannot split {} into {} outputs", size, count));
  for (size_t i = 0; i < count; ++i) {
    Axes result = axes;
    result[at] = {factor(parts[i])};
    KVIK_CHECK(op.set_output(i, std::move(result), op.dtype(0)));
  }
  op.emit();
  return {};
}

// Features may be padded; rows have no neighbors.
Expected<> pad(NodeLabeler& op) {
  KVIK_TRY(Axes axes, op.axes(0));
  KVIK_TRY(const std::optional<std::vector<int64_t>> named, op.ints_of("pads", 1));
  const std::vector<int64_t> pads = named.value_or(std::vector<int64_t>());
  KVIK_TRY(std::vector<int64_t> padded, op.has(3) ? op.ints(3) : std::vector<int64_t>());
  for (size_t i = padded.size(); !op.has(3) && i < axes.size(); ++i) padded.push_back(static_cast<int64_t>(i));
  if (pads.size() != 2 * padded.size()) return op.refuse(fmt::format("has {} pads for {} axes", pads.size(), padded.size()));
  if (op.is_row(2)) return op.refuse("pads with a value that depends on rows");
  for (size_t i = 0; i < padded.size(); ++i) {
    const int64_t before = pads[i], after = pads[i + padded.size()];
    if (before == 0 && after == 0) continue;
    KVIK_TRY(const size_t at, op.axis_at(padded[i], axes.size()));
    Axis& axis = axes[at];
    if (has_symbol(axis)) return op.refuse("pads an axis of rows: " + to_string(axes));
    const int64_t size =
        std::clamp<int64_t>(before, -kMostRepeats, kMostRepeats) + std::clamp<int64_t>(after, -kMostRepeats, kMostRepeats) + row_size(axis);
    if (size < 1) return op.refuse("removes all elements");
    axis = {factor(size)};
  }
  return op.emit_with(std::move(axes), op.dtype(0));
}

}  // namespace

void add_movement_rules(RuleTable& table) {
  table.add("Transpose", transpose);
  table.add("Expand", expand);
  table.add("Tile", tile);
  table.add("Split", split);
  table.add("Pad", pad);
}

}  // namespace kvik::native
