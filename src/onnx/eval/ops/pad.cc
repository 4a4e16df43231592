#include <algorithm>
#include <numeric>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {
namespace {

// Elements added (or, if negative, dropped) at both ends of one axis.
struct AxisPad {
  int64_t before = 0;
  int64_t after = 0;
};

int64_t floor_mod(int64_t a, int64_t n) { return ((a % n) + n) % n; }

// The source of element i, counted from the first of the n kept ones.
int64_t padded_index(int64_t i, int64_t n, std::string_view mode) {
  if (i >= 0 && i < n) return i;
  if (mode == "constant") return kFill;
  require(n > 0, "an empty axis cannot be padded in mode '{}'", mode);
  if (mode == "edge") return i < 0 ? 0 : n - 1;
  if (mode == "wrap") return floor_mod(i, n);
  require(mode == "reflect", "mode '{}' is unknown; expected 'constant', 'reflect', 'edge' or 'wrap'", mode);
  if (n == 1) return 0;
  const int64_t folded = floor_mod(i, 2 * (n - 1));
  return folded < n ? folded : 2 * (n - 1) - folded;
}

std::vector<AxisPad> pads_of(const KernelCall& call) {
  const int rank = call.input(0).rank();
  const std::string_view attribute = call.node.opset < 2 ? "paddings" : "pads";
  const std::vector<int64_t> pads = ints_parameter(call, 1, attribute);
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (call.has(3)) axes = as_ints(call.input(3));
  require(pads.size() == 2 * axes.size(), "{} pads were given for {} axes", pads.size(), axes.size());
  normal_axes(axes, rank);
  std::vector<AxisPad> result(static_cast<size_t>(rank));
  for (size_t i = 0; i < axes.size(); ++i) { result[static_cast<size_t>(normal_axis(axes[i], rank))] = {pads[i], pads[axes.size() + i]}; }
  return result;
}

Tensor fill_of(const KernelCall& call) {
  const Tensor& x = call.input(0);
  if (!call.has(2)) {
    if (!call.node.has("value")) return {x.dtype(), {1}};
    return cast(Tensor::of<float>({1}, {call.node.float_or("value", 0)}), x.dtype());
  }
  require(call.input(2).size() == 1, "the constant has shape {}; expected one element", to_string(call.input(2).dims()));
  require_same_dtype(x, call.input(2));
  return call.input(2);
}

Tensors pad(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const std::string_view mode = call.node.string_or("mode", "constant");
  const std::vector<AxisPad> pads = pads_of(call);
  constexpr int64_t kMost = int64_t{1} << 40;  // so that sums do not overflow
  Dims dims = x.dims();
  Dims cut(dims.size());   // elements dropped from the front
  Dims kept(dims.size());  // of the source
  for (size_t i = 0; i < dims.size(); ++i) {
    require(std::max(pads[i].before, pads[i].after) < kMost && std::min(pads[i].before, pads[i].after) > -kMost,
            "axis {} cannot be padded by {} and {}", i, pads[i].before, pads[i].after);
    cut[i] = std::max<int64_t>(0, -pads[i].before);
    kept[i] = x.dims()[i] - cut[i] - std::max<int64_t>(0, -pads[i].after);
    dims[i] += pads[i].before + pads[i].after;
    require(kept[i] >= 0 && dims[i] >= 0, "axis {} of shape {} is cropped below zero", i, to_string(x.dims()));
  }
  const auto source = [&](size_t axis, int64_t i) {
    const int64_t from = padded_index(i - std::max<int64_t>(0, pads[axis].before), kept[axis], mode);
    return from == kFill ? kFill : from + cut[axis];
  };
  return {remapped(x, dims, source, fill_of(call))};
}

}  // namespace

void add_pad(KernelTable& table) { table.add("Pad", pad); }

}  // namespace kvik::onnx
