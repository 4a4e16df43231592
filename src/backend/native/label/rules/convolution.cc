#include <algorithm>
#include <fmt/format.h>

#include "backend/native/label/rules.h"

// A convolution with a kernel of one position is a product of each row and a weight; wider kernels mix rows.
namespace kvik::native {
namespace {

bool all_are(const std::vector<int64_t>& values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [&](int64_t one) { return one == wanted; });
}

Expected<> convolution(NodeLabeler& op) {
  KVIK_TRY(Axes axes, op.axes(0));
  const Dims kernel = op.has(1) && !op.is_row(1) ? op.label(1).dims : Dims();
  if (kernel.size() < 3 || kernel.size() != axes.size()) return op.refuse("convolves with a kernel that is not constant");
  const bool rows_apart = std::all_of(axes.begin() + 2, axes.end(), [](const Axis& axis) { return has_symbol(axis) || axis.empty(); });
  const bool one_wide = all_are(std::vector<int64_t>(kernel.begin() + 2, kernel.end()), 1);
  const bool plain = all_are(op.node().ints_or("pads", {}), 0) && all_are(op.node().ints_or("strides", {}), 1);
  if (!one_wide || !plain || !rows_apart || op.node().string_or("auto_pad", "NOTSET") != "NOTSET")
    return op.refuse("convolves along an axis of rows: " + to_string(axes));
  const int64_t group = op.node().int_or("group", 1);
  if (has_symbol(axes[1]) || row_size(axes[1]) != kernel[1] * group) return op.refuse("has other channels than its kernel");
  axes[1] = canonical({factor(std::max<int64_t>(1, kernel[0]))});
  return op.emit_with(std::move(axes), op.dtype(0));
}

}  // namespace

void add_convolution_rules(RuleTable& table) { table.add("Conv", convolution); }

}  // namespace kvik::native
