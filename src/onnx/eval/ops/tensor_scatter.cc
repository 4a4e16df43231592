#include "onnx/eval/groups.h"
#include "onnx/eval/ops/elements.h"
#include "onnx/eval/ops/numbers.h"

namespace kvik::onnx {
namespace {

// Writes an update into a cache of fixed capacity along `axis`, from a start per batch entry.
std::vector<Tensor> tensor_scatter(const KernelCall& call) {
  const Tensor &cache = call.input(0), &update = call.input(1);
  require_same_dtype(cache, update);
  require(cache.rank() >= 2 && cache.rank() == update.rank(),
          "found a cache of shape {} and an update of shape {}; expected one rank of at least 2", to_string(cache.dims()),
          to_string(update.dims()));
  const int axis = normal_axis(call.node.int_or("axis", -2), cache.rank());
  require(axis > 0, "attribute 'axis' is the batch; expected a later axis");
  for (int i = 0; i < cache.rank(); ++i) {
    const bool fits = i == axis ? update.dim(i) <= cache.dim(i) : update.dim(i) == cache.dim(i);
    require(fits, "an update of shape {} does not fit into a cache of shape {} along axis {}", to_string(update.dims()),
            to_string(cache.dims()), axis);
  }
  const std::string_view mode = call.node.string_or("mode", "linear");
  require(mode == "linear" || mode == "circular", "attribute 'mode' is '{}'; expected 'linear' or 'circular'", mode);
  const int64_t batch = cache.dim(0), capacity = cache.dim(axis), length = update.dim(axis);
  std::vector<int64_t> starts(static_cast<size_t>(batch));
  if (call.has(2)) {
    require_dims(call.input(2), {batch}, "write_indices");
    starts = integers_of(call.input(2));
  }
  for (const int64_t start : starts) {
    const bool fits = start >= 0 && (mode == "circular" || start <= capacity - length);
    require(fits, "{} elements from index {} exceed the cache of {}", length, start, capacity);
  }
  Tensor result = cache;
  if (update.size() == 0) return {result};
  ElementWriter writer(result);
  const AxisSplit around = split_at(cache.dims(), axis);
  for (int64_t outer = 0; outer < around.outer; ++outer) {
    const int64_t start = starts[static_cast<size_t>(outer / (around.outer / batch))] % capacity;
    for (int64_t i = 0; i < length; ++i) {
      const int64_t place = (start + i) % capacity;
      writer.copy(update, (outer * length + i) * around.inner, (outer * capacity + place) * around.inner, around.inner);
    }
  }
  return {result};
}

}  // namespace

void add_tensor_scatter(KernelTable& table) { table.add("TensorScatter", tensor_scatter); }

}  // namespace kvik::onnx
