#include <algorithm>
#include <numeric>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {
namespace {

constexpr int64_t kLongestAxis = int64_t{1} << 57;  // of an axis: a sum of lengths can exceed what a shape allows

struct Range {
  int64_t start;
  int64_t step;
  int64_t count;
};

// Python's start:end:step on an axis of `dim` elements.
Range clamped_range(int64_t start, int64_t end, int64_t step, int64_t dim) {
  require(step != 0, "a slice has step 0");
  step = std::clamp(step, -(dim + 1), dim + 1);  // a longer step selects the same elements
  if (start < 0) start += dim;
  if (end < 0) end += dim;
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? dim : dim - 1;
  start = std::clamp(start, step > 0 ? int64_t{0} : std::min(low, high), high);
  end = std::clamp(end, low, std::max(low, high));
  const int64_t span = step > 0 ? end - start : start - end;
  const int64_t stride = step > 0 ? step : -step;
  return {start, step, span <= 0 ? 0 : (span + stride - 1) / stride};
}

Tensors slice(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const std::vector<int64_t> starts = ints_parameter(call, 1, "starts");
  const std::vector<int64_t> ends = ints_parameter(call, 2, "ends");
  std::vector<int64_t> axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = ints_parameter(call, 3, "axes", axes);
  const std::vector<int64_t> steps = call.has(4) ? as_ints(call.input(4)) : std::vector<int64_t>(starts.size(), 1);
  require(starts.size() == ends.size() && starts.size() == axes.size() && starts.size() == steps.size(),
          "{} starts, {} ends, {} axes and {} steps were given", starts.size(), ends.size(), axes.size(), steps.size());
  normal_axes(axes, x.rank());  // each at most once
  Dims dims = x.dims();
  Dims strides = strides_of(x.dims());
  int64_t from = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(normal_axis(axes[i], x.rank()));
    const Range range = clamped_range(starts[i], ends[i], steps[i], x.dims()[axis]);
    if (range.count > 0) from += range.start * strides[axis];
    dims[axis] = range.count;
    strides[axis] *= range.step;
  }
  return {strided_copy(x, from, dims, strides)};
}

// Rows [begin, begin + n) of an axis.
Tensor part_of(const Tensor& x, int axis, int64_t begin, int64_t n) {
  Dims dims = x.dims();
  dims[static_cast<size_t>(axis)] = n;
  const Dims strides = strides_of(x.dims());
  return strided_copy(x, begin * strides[static_cast<size_t>(axis)], dims, strides);
}

std::vector<int64_t> split_sizes(const KernelCall& call, int64_t dim) {
  if (call.has(1) || call.node.has("split")) return ints_parameter(call, 1, "split");
  const auto n = static_cast<int64_t>(call.n_outputs());
  const int64_t asked = call.node.int_or("num_outputs", n);
  require(asked == n && n > 0, "num_outputs is {}, but the node has {} outputs", asked, n);
  require(call.node.opset >= 18 || dim % n == 0, "an axis of {} cannot be split into {} equal parts", dim, n);
  const int64_t each = (dim + n - 1) / n;
  std::vector<int64_t> sizes;
  for (int64_t left = dim; static_cast<int64_t>(sizes.size()) < n; left -= sizes.back()) sizes.push_back(std::min(each, left));
  return sizes;
}

Tensors split(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const int axis = normal_axis(call.node.int_or("axis", 0), x.rank());
  const std::vector<int64_t> sizes = split_sizes(call, x.dim(axis));
  require(sizes.size() == call.n_outputs(), "{} parts were given; the node has {} outputs", sizes.size(), call.n_outputs());
  Tensors parts;
  int64_t begin = 0;
  for (const int64_t n : sizes) {
    require(n >= 0 && n <= x.dim(axis) - begin, "parts of {} do not fit into an axis of {}", to_string(sizes), x.dim(axis));
    parts.push_back(part_of(x, axis, begin, n));
    begin += n;
  }
  require(begin == x.dim(axis), "parts of {} do not add up to an axis of {}", to_string(sizes), x.dim(axis));
  return parts;
}

Tensors concat(const KernelCall& call) {
  const Tensor& first = call.input(0);
  const int axis = normal_axis(call.node.int_or("axis", 1), first.rank());
  Dims dims = first.dims();
  auto& along = dims[static_cast<size_t>(axis)];
  along = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& part = call.input(i);
    require_same_dtype(first, part);
    Dims others = part.dims();
    require(others.size() == dims.size(), "inputs of shapes {} and {} cannot be joined", to_string(first.dims()), to_string(part.dims()));
    others[static_cast<size_t>(axis)] = along;
    require(others == dims, "inputs of shapes {} and {} cannot be joined along axis {}", to_string(first.dims()), to_string(part.dims()),
            axis);
    along += part.dim(axis);
    require(along < kLongestAxis, "an axis of {} elements is too long", along);
  }
  Tensor result = new_tensor(first.dtype(), dims);
  if (result.size() == 0) return {result};
  ElementWriter writer(result);
  const AxisSplit whole = split_at(dims, axis);
  int64_t done = 0;
  for (const Tensor& part : call.inputs) {
    const int64_t run = part.dim(axis) * whole.inner;
    for (int64_t o = 0; o < whole.outer; ++o) writer.copy(part, o * run, (o * whole.n + done) * whole.inner, run);
    done += part.dim(axis);
  }
  return {result};
}

Tensors reverse_sequence(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const std::vector<int64_t> lengths = as_ints(call.input(1));
  require(x.rank() >= 2, "a tensor of rank {} has no time and batch axis", x.rank());
  const auto time = static_cast<size_t>(normal_axis(call.node.int_or("time_axis", 0), x.rank()));
  const auto batch = static_cast<size_t>(normal_axis(call.node.int_or("batch_axis", 1), x.rank()));
  require(time != batch && time < 2 && batch < 2, "time_axis and batch_axis must be 0 and 1 or 1 and 0");
  require(static_cast<int64_t>(lengths.size()) == x.dims()[batch], "{} lengths were given for a batch of {}", lengths.size(),
          x.dims()[batch]);
  for (const int64_t length : lengths) require(length >= 0 && length <= x.dims()[time], "length {} exceeds {}", length, x.dims()[time]);
  if (x.size() == 0) return {x};
  Tensor result = x;
  ElementWriter writer(result);
  const Dims strides = strides_of(x.dims());
  const int64_t run = product(x.dims(), 2, x.rank());
  for (size_t b = 0; b < lengths.size(); ++b) {
    const int64_t row = static_cast<int64_t>(b) * strides[batch];
    for (int64_t t = 0; t < lengths[b]; ++t) writer.copy(x, row + (lengths[b] - 1 - t) * strides[time], row + t * strides[time], run);
  }
  return {result};
}

}  // namespace

void add_slicing(KernelTable& table) {
  table.add("Concat", concat);
  table.add("ReverseSequence", reverse_sequence);
  table.add("Slice", slice);
  table.add("Split", split);
}

}  // namespace kvik::onnx
