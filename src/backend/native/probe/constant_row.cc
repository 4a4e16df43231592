#include "backend/native/probe/constant_row.h"

#include <cstring>

#include "backend/native/probe/evaluation.h"

namespace kvik::native {
namespace {

// For every element of a tensor with these axes, which element of a row it is.
std::vector<int64_t> place_in_row(const Axes& axes, const Sizes& sizes) {
  std::vector<int64_t> places = {0};
  for (const Axis& axis : axes) {
    for (const Factor& factor : axis) {
      const int64_t size = sizes.of(factor);
      std::vector<int64_t> next;
      next.reserve(places.size() * static_cast<size_t>(size));
      for (const int64_t place : places) {
        for (int64_t i = 0; i < size; ++i) next.push_back(factor.is_symbol() ? place : place * size + i);
      }
      places = std::move(next);
    }
  }
  return places;
}

// Nullopt if two rows of the tensor differ.
std::optional<Tensor> only_row(const Tensor& tensor, const Axes& axes, const Sizes& sizes) {
  if (tensor.dims() != sizes.of(axes)) return tensor;
  if (bits_per_element(tensor.dtype()) % 8 != 0 || bits_per_element(tensor.dtype()) == 0) return std::nullopt;
  const auto width = static_cast<size_t>(bits_per_element(tensor.dtype()) / 8);
  Tensor row(tensor.dtype(), row_dims(axes));
  const std::vector<int64_t> places = place_in_row(axes, sizes);
  std::vector<bool> known(static_cast<size_t>(row.size()));
  std::byte* target = row.mutable_bytes().data();
  const std::byte* source = tensor.bytes().data();
  for (size_t i = 0; i < places.size(); ++i) {
    const auto place = static_cast<size_t>(places[i]);
    if (known[place] && std::memcmp(target + place * width, source + i * width, width) != 0) return std::nullopt;
    std::memcpy(target + place * width, source + i * width, width);
    known[place] = true;
  }
  return row;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() && std::memcmp(a.bytes().data(), b.bytes().data(), a.size_bytes()) == 0;
}

}  // namespace

Expected<std::optional<Tensor>> constant_row(CompileState& state, onnx::ValueId value, const Axes& axes) {
  std::optional<Tensor> first;
  const auto agrees = [&](const Tensor& tensor, const Sizes& sizes) {
    const std::optional<Tensor> row = only_row(as_f32(tensor), axes, sizes);
    if (!row || (first && !same(*first, *row))) return false;
    first = row;
    return true;
  };
  for (Probe* probe : state.probes.triple()) {
    KVIK_TRY(const Tensor tensor, probe->get(value));
    if (!agrees(tensor, probe->sizes())) return std::nullopt;
  }
  for (const Sizes& sizes : long_sizes(state.labels, state.options.context)) {
    KVIK_TRY(const Evaluated<Tensor> found, state.probes.at(sizes).try_get(value));
    if (!found) break;  // the graph does not support this length; a table or mask determines the limit
    if (!agrees(*found, sizes)) return std::nullopt;
  }
  return first;
}

}  // namespace kvik::native
