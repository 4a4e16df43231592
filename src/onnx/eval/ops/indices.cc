#include "onnx/eval/ops/indices.h"

namespace kvik::onnx {
namespace {

int64_t normal_index(int64_t index, int64_t n) {
  if (index >= -n && index < n) return index < 0 ? index + n : index;
  refuse("index {} is outside an axis of {}", index, n);
}

}  // namespace

std::vector<int64_t> indices_into(const Tensor& indices, int64_t n) {
  std::vector<int64_t> result = as_ints(indices);
  for (int64_t& index : result) index = normal_index(index, n);
  return result;
}

void require_inside(const Dims& part, const Dims& whole, int axis) {
  require(part.size() == whole.size(), "indices of shape {} were given for data of shape {}", to_string(part), to_string(whole));
  for (size_t i = 0; i < part.size(); ++i) {
    require(static_cast<int>(i) == axis || part[i] <= whole[i], "indices of shape {} exceed data of shape {} on axis {}", to_string(part),
            to_string(whole), i);
  }
}

Tuples::Tuples(const Tensor& indices, const Dims& dims, int skipped) {
  require(indices.rank() >= 1, "indices are a scalar; expected at least one axis");
  const int rank = static_cast<int>(dims.size());
  require(indices.dim(-1) <= rank - skipped, "indices of shape {} have more axes than shape {}", to_string(indices.dims()),
          to_string(dims));
  width_ = static_cast<int>(indices.dim(-1));
  run_ = product(dims, skipped + width_, rank);
  const Dims strides = strides_of(dims);
  const std::vector<int64_t> flat = as_ints(indices);
  const int64_t n = product(indices.dims(), 0, indices.rank() - 1);
  require(width_ > 0 || n <= 1, "{} index tuples have no elements", n);  // they take no memory, so their number is unbounded
  offsets_.assign(static_cast<size_t>(n), 0);
  for (size_t i = 0; i < offsets_.size(); ++i) {
    for (size_t j = 0; j < static_cast<size_t>(width_); ++j) {
      const size_t axis = static_cast<size_t>(skipped) + j;
      offsets_[i] += normal_index(flat[i * static_cast<size_t>(width_) + j], dims[axis]) * strides[axis];
    }
  }
}

}  // namespace kvik::onnx
