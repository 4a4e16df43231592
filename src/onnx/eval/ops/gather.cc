#include <algorithm>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/elements.h"
#include "onnx/eval/ops/indices.h"

namespace kvik::onnx {
namespace {

Tensors gather(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const int axis = normal_axis(call.node.int_or("axis", 0), x.rank());
  const AxisSplit from = split_at(x.dims(), axis);
  const std::vector<int64_t> indices = indices_into(call.input(1), from.n);
  Dims dims(x.dims().begin(), x.dims().begin() + axis);
  dims.insert(dims.end(), call.input(1).dims().begin(), call.input(1).dims().end());
  dims.insert(dims.end(), x.dims().begin() + axis + 1, x.dims().end());
  Tensor result = new_tensor(x.dtype(), dims);
  if (result.size() == 0) return {result};
  ElementWriter writer(result);
  int64_t to = 0;
  for (int64_t o = 0; o < from.outer; ++o) {
    for (const int64_t index : indices) {
      writer.copy(x, (o * from.n + index) * from.inner, to, from.inner);
      to += from.inner;
    }
  }
  return {result};
}

Tensors gather_elements(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const Tensor& places = call.input(1);
  const int axis = normal_axis(call.node.int_or("axis", 0), x.rank());
  require_inside(places.dims(), x.dims(), axis);
  const std::vector<int64_t> indices = indices_into(places, x.dim(axis));
  Tensor result = new_tensor(x.dtype(), places.dims());
  ElementWriter writer(result);
  int64_t to = 0;
  for (AlongAxis walk(places.dims(), x.dims(), axis); walk.more(); walk.next(), ++to) {
    writer.copy(x, walk.offset(indices[static_cast<size_t>(to)]), to);
  }
  return {result};
}

Tensors gather_nd(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const Tensor& places = call.input(1);
  const int64_t batch = call.node.int_or("batch_dims", 0);
  require(batch >= 0 && batch < std::min(x.rank(), places.rank()), "batch_dims {} does not fit shapes {} and {}", batch,
          to_string(x.dims()), to_string(places.dims()));
  const int n_batch = static_cast<int>(batch);
  require(std::equal(x.dims().begin(), x.dims().begin() + n_batch, places.dims().begin()), "shapes {} and {} differ in their {} batch axes",
          to_string(x.dims()), to_string(places.dims()), batch);
  const Tuples tuples(places, x.dims(), n_batch);
  Dims dims(places.dims().begin(), places.dims().end() - 1);
  dims.insert(dims.end(), x.dims().begin() + n_batch + tuples.width(), x.dims().end());
  Tensor result = new_tensor(x.dtype(), dims);
  ElementWriter writer(result);
  const int64_t n_batches = product(x.dims(), 0, n_batch);
  const int64_t per_batch = n_batches == 0 ? 0 : tuples.count() / n_batches;
  const int64_t stride = product(x.dims(), n_batch, x.rank());
  for (int64_t i = 0; i < tuples.count(); ++i) {
    writer.copy(x, i / per_batch * stride + tuples.offset(i), i * tuples.run(), tuples.run());
  }
  return {result};
}

Tensors compress(const KernelCall& call) {
  const Tensor flat = call.input(0).reshaped({call.input(0).size()});
  const Tensor& x = call.node.has("axis") ? call.input(0) : flat;
  const int axis = normal_axis(call.node.int_or("axis", 0), x.rank());
  const auto condition = call.input(1).data<bool>();
  const AxisSplit from = split_at(x.dims(), axis);
  require(static_cast<int64_t>(condition.size()) <= from.n, "a condition of {} was given for an axis of {}", condition.size(), from.n);
  std::vector<int64_t> kept;
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i]) kept.push_back(static_cast<int64_t>(i));
  }
  Dims dims = x.dims();
  dims[static_cast<size_t>(axis)] = static_cast<int64_t>(kept.size());
  return {remapped(x, dims, [&](size_t a, int64_t i) { return static_cast<int>(a) == axis ? kept[static_cast<size_t>(i)] : i; })};
}

}  // namespace

void add_gather(KernelTable& table) {
  table.add("Compress", compress);
  table.add("Gather", gather);
  table.add("GatherElements", gather_elements);
  table.add("GatherND", gather_nd);
}

}  // namespace kvik::onnx
