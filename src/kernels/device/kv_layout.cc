#include "kernels/device/kv_layout.h"

#include <cstring>
#include <fmt/format.h>

#include "kernels/device/order.h"
#include "kvik/error.h"

namespace kvik::device {
namespace {

constexpr int64_t kMostHeads = 1 << 16, kMostDim = 1 << 16;

template <class Fn>
void for_planes(const KvLayout& layout, std::byte* page, Fn fn) {
  for (int64_t head = 0; head < layout.n_heads; ++head) {
    for (int64_t plane = 0; plane < layout.planes; ++plane) {
      std::byte* at = page + head * layout.head_bytes;
      fn(at + plane * kPagePositions * layout.key_stride * 2, layout.key_stride);
      fn(at + layout.values_offset + plane * kPagePositions * layout.value_stride * 2, layout.value_stride);
    }
  }
}

}  // namespace

KvLayout kv_layout(int planes, int64_t n_heads, int64_t key_dim, int64_t value_dim) {
  if (n_heads < 1 || n_heads > kMostHeads || key_dim < 1 || key_dim > kMostDim || value_dim < 1 || value_dim > kMostDim)
    throw Error(Code::kBadArgument, fmt::format("no cache has {} heads of {} and {} elements", n_heads, key_dim, value_dim));
  const auto padded = [](int64_t dim) { return static_cast<int32_t>((dim + 7) / 8 * 8); };
  KvLayout layout;
  layout.n_heads = static_cast<int32_t>(n_heads);
  layout.key_dim = static_cast<int32_t>(key_dim);
  layout.value_dim = static_cast<int32_t>(value_dim);
  layout.key_stride = padded(key_dim);
  layout.value_stride = padded(value_dim);
  layout.planes = planes;
  layout.values_offset = int64_t{planes} * kPagePositions * layout.key_stride * 2;
  layout.head_bytes = layout.values_offset + int64_t{planes} * kPagePositions * layout.value_stride * 2;
  layout.page_bytes = layout.head_bytes * n_heads;
  return layout;
}

void clear_positions(const KvLayout& layout, std::byte* page, int first) {
  for_planes(layout, page, [&](std::byte* plane, int64_t stride) {
    std::memset(plane + first * stride * 2, 0, static_cast<size_t>((kPagePositions - first) * stride * 2));
  });
}

}  // namespace kvik::device
