#include "backend/native/execute/device/call_block.h"

#include <algorithm>
#include <cstring>

namespace kvik::native {

CallLayout::CallLayout(int most_rows, int most_tail_rows, size_t most_patches) {
  const auto take = [&](size_t n_bytes) {
    const int64_t at = size_bytes;
    size_bytes += static_cast<int64_t>((n_bytes + 15) / 16 * 16);
    return at;
  };
  for (int64_t* count : {&n_rows, &n_tail_rows, &n_groups, &n_tail_groups, &n_patches}) *count = take(sizeof(int32_t));
  const auto n = static_cast<size_t>(most_rows), n_tail = static_cast<size_t>(most_tail_rows);
  rows = take(n * sizeof(device::Row));
  tail_rows = take(n_tail * sizeof(device::Row));
  chosen = take(n_tail * sizeof(int32_t));
  groups = take(n * sizeof(device::RowGroup));
  tail_groups = take(n_tail * sizeof(device::RowGroup));
  patches = take(most_patches * sizeof(device::Patch));
}

void group_rows(std::span<const device::Row> rows, int most_rows, std::vector<device::RowGroup>& groups) {
  groups.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool continues = i > 0 && rows[i].slot == rows[i - 1].slot && rows[i].position == rows[i - 1].position + 1;
    if (continues && groups.back().n_rows < most_rows)
      ++groups.back().n_rows;
    else
      groups.push_back({static_cast<int32_t>(i), 1});
  }
}

bool CallBlock::reserve(const std::shared_ptr<SharedDevice>& shared, const CallLayout& layout) {
  const auto n_bytes = static_cast<size_t>(layout.size_bytes);
  if (n_bytes <= buffer_.size_bytes()) return false;
  DeviceBuffer larger(shared, 2 * n_bytes, "the rows of a call");
  PinnedBuffer host(shared, 2 * n_bytes);
  std::fill_n(host.data(), host.size_bytes(), std::byte{0});
  host_ = std::move(host);
  buffer_ = std::move(larger);
  return true;
}

device::Begin CallBlock::begin(const CallLayout& layout) const {
  return {.to = at(0),
          .from = host_.address(),
          .n_bytes = layout.patches,
          .patches = host_.address() + layout.patches,
          .n_patches = host_.address() + layout.n_patches};
}

template <class T>
void CallBlock::put(int64_t offset, std::span<const T> items) {
  if (!items.empty()) std::memcpy(host_.data() + offset, items.data(), items.size_bytes());
}

void CallBlock::fill(const CallLayout& layout, std::span<const device::Row> given, std::span<const int32_t> wanted, int most_group_rows,
                     std::span<const device::Patch> patches) {
  const auto put_count = [&](int64_t offset, size_t n) {
    const auto count = static_cast<int32_t>(n);
    put(offset, std::span(&count, 1));
  };
  put_count(layout.n_rows, given.size());
  put_count(layout.n_tail_rows, wanted.size());
  put_count(layout.n_patches, patches.size());
  put(layout.rows, given);
  put(layout.chosen, wanted);
  put(layout.patches, patches);
  device::Row* tail = tail_rows(layout);
  for (size_t i = 0; i < wanted.size(); ++i) tail[i] = given[static_cast<size_t>(wanted[i])];
  group_rows(given, most_group_rows, groups_);
  put_count(layout.n_groups, groups_.size());
  put(layout.groups, std::span<const device::RowGroup>(groups_));
  group_rows({tail, wanted.size()}, most_group_rows, groups_);
  put_count(layout.n_tail_groups, groups_.size());
  put(layout.tail_groups, std::span<const device::RowGroup>(groups_));
}

}  // namespace kvik::native
