#include <algorithm>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/broadcast.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {
namespace {

Tensors identity(const KernelCall& call) { return {call.input(0)}; }

// Replaces the -1 by the size that the number of elements requires.
void infer_dim(Dims& dims, const Tensor& x) {
  const auto unknown = std::find(dims.begin(), dims.end(), -1);
  if (unknown == dims.end()) return;
  *unknown = 1;
  const std::optional<int64_t> rest = checked_elements(dims);
  require(rest.has_value(), "the shape {} has two unknown dimensions or an invalid one", to_string(dims));
  require(*rest != 0 && x.size() % *rest == 0, "a tensor of shape {} cannot be divided into {}", to_string(x.dims()), to_string(dims));
  *unknown = x.size() / *rest;
}

Tensors reshape(const KernelCall& call) {
  const Tensor& x = call.input(0);
  Dims dims = ints_parameter(call, 1, "shape");
  const bool allow_zero = call.node.int_or("allowzero", 0) != 0;
  for (size_t i = 0; i < dims.size() && !allow_zero; ++i) {
    if (dims[i] != 0) continue;
    require(i < x.dims().size(), "dimension {} of {} is 0 (keep), but the input has shape {}", i, to_string(dims), to_string(x.dims()));
    dims[i] = x.dims()[i];
  }
  infer_dim(dims, x);
  return {x.reshaped(dims)};
}

Tensors flatten(const KernelCall& call) {
  const Tensor& x = call.input(0);
  int64_t axis = call.node.int_or("axis", 1);
  if (axis < 0) axis += x.rank();
  require(axis >= 0 && axis <= x.rank(), "axis {} is outside a tensor of rank {}", axis, x.rank());
  const int cut = static_cast<int>(axis);
  return {x.reshaped({product(x.dims(), 0, cut), product(x.dims(), cut, x.rank())})};
}

Tensors squeeze(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const bool all = !call.has(1) && !call.node.has("axes");
  const std::vector<int> axes = normal_axes(ints_parameter(call, 1, "axes"), x.rank());
  Dims dims;
  for (int i = 0; i < x.rank(); ++i) {
    const bool named = std::binary_search(axes.begin(), axes.end(), i);
    require(!named || x.dim(i) == 1, "axis {} of shape {} cannot be squeezed: it is not 1", i, to_string(x.dims()));
    if (!(named || (all && x.dim(i) == 1))) dims.push_back(x.dim(i));
  }
  return {x.reshaped(dims)};
}

Tensors unsqueeze(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const std::vector<int64_t> given = ints_parameter(call, 1, "axes");
  const int rank = x.rank() + static_cast<int>(given.size());
  const std::vector<int> axes = normal_axes(given, rank);
  Dims dims;
  size_t from = 0;
  for (int i = 0; i < rank; ++i) dims.push_back(std::binary_search(axes.begin(), axes.end(), i) ? 1 : x.dims()[from++]);
  return {x.reshaped(dims)};
}

Tensors transpose(const KernelCall& call) {
  const Tensor& x = call.input(0);
  std::vector<int64_t> reversed;
  for (int i = x.rank(); i-- > 0;) reversed.push_back(i);
  const std::vector<int64_t> perm = call.node.ints_or("perm", reversed);
  require(perm.size() == x.dims().size(), "perm has {} axes, the input has shape {}", perm.size(), to_string(x.dims()));
  normal_axes(perm, x.rank());  // each once
  const Dims from = strides_of(x.dims());
  Dims dims;
  Dims strides;
  for (const int64_t axis : perm) {
    const auto i = static_cast<size_t>(normal_axis(axis, x.rank()));
    dims.push_back(x.dims()[i]);
    strides.push_back(from[i]);
  }
  return {strided_copy(x, 0, dims, strides)};
}

Tensors expand(const KernelCall& call) {
  const Tensor& x = call.input(0);
  return {broadcast_to(x, broadcast(x.dims(), as_ints(call.input(1))))};
}

Dims repeats_of(const KernelCall& call) {
  const int rank = call.input(0).rank();
  if (call.node.opset >= 6) return as_ints(call.input(1));
  Dims repeats(static_cast<size_t>(rank), 1);
  repeats[static_cast<size_t>(normal_axis(as_int(call.input(2)), rank))] = as_int(call.input(1));
  return repeats;
}

Tensors tile(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const Dims repeats = repeats_of(call);
  require(repeats.size() == x.dims().size(), "{} repeats were given for shape {}", repeats.size(), to_string(x.dims()));
  Dims dims;
  for (size_t i = 0; i < repeats.size(); ++i) {
    const std::optional<int64_t> dim = checked_elements(Dims{x.dims()[i], repeats[i]});
    require(dim.has_value(), "axis {} of shape {} cannot be repeated {} times", i, to_string(x.dims()), repeats[i]);
    dims.push_back(*dim);
  }
  return {remapped(x, dims, [&](size_t axis, int64_t i) { return i % x.dims()[axis]; })};
}

}  // namespace

void add_movement(KernelTable& table) {
  table.add("Expand", expand);
  table.add("Flatten", flatten);
  table.add("Identity", identity);
  table.add("Reshape", reshape);
  table.add("Squeeze", squeeze);
  table.add("Tile", tile);
  table.add("Transpose", transpose);
  table.add("Unsqueeze", unsqueeze);
}

}  // namespace kvik::onnx
