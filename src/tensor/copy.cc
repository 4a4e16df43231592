#include "tensor/copy.h"

#include <cstring>

namespace kvik {
namespace {

void copy_axis(const BoxCopy& box, size_t axis, size_t n_inner, const std::byte* source, std::byte* target) {
  if (axis == n_inner) {
    size_t run = box.element_bytes;
    for (size_t i = n_inner; i < box.extents.size(); ++i) run *= static_cast<size_t>(box.extents[i]);
    std::memcpy(target, source, run);
    return;
  }
  const auto step = static_cast<int64_t>(box.element_bytes);
  for (int64_t i = 0; i < box.extents[axis]; ++i) {
    copy_axis(box, axis + 1, n_inner, source + i * box.source_strides[axis] * step, target + i * box.target_strides[axis] * step);
  }
}

}  // namespace

void copy_box(const BoxCopy& box, const std::byte* source, std::byte* target) {
  for (const int64_t extent : box.extents) {
    if (extent == 0) return;
  }
  // The last axes, if contiguous in both arrays, are one run of bytes.
  size_t n_inner = box.extents.size();
  int64_t run = 1;
  while (n_inner > 0 && box.source_strides[n_inner - 1] == run && box.target_strides[n_inner - 1] == run) {
    run *= box.extents[n_inner - 1];
    --n_inner;
  }
  copy_axis(box, 0, n_inner, source, target);
}

}  // namespace kvik
