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
  for (int64_t* count : {&n_rows, &n_tail_rows, &n_groups, &n_tail_groups, &n_patches, &n_continued}) *count = take(sizeof(int32_t));
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
  std::array<PinnedBuffer, kHostPlaces> host;
  for (PinnedBuffer& place : host) {
    place = PinnedBuffer(shared, 2 * n_bytes);
    std::fill_n(place.data(), place.size_bytes(), std::byte{0});
  }
  host_ = std::move(host);
  buffer_ = std::move(larger);
  return true;
}

device::Begin CallBlock::begin(const CallLayout& layout, size_t place, device::Address chosen) const {
  const device::Address host = host_[place].address();
  return {.to = at(0),
          .from = host,
          .n_bytes = layout.patches,
          .patches = host + layout.patches,
          .n_patches = host + layout.n_patches,
          .n_continued = host + layout.n_continued,
          .chosen = chosen,
          .rows_offset = layout.rows};
}

void CallBlock::fill(const CallLayout& layout, size_t place, const Contents& contents) {
  std::byte* const host = host_[place].data();
  const auto put = [&](int64_t offset, const auto& items) {
    if (!items.empty()) std::memcpy(host + offset, items.data(), items.size() * sizeof(items[0]));
  };
  const auto put_count = [&](int64_t offset, size_t n) { put(offset, std::array{static_cast<int32_t>(n)}); };
  put_count(layout.n_rows, contents.rows.size());
  put_count(layout.n_tail_rows, contents.wanted.size());
  put_count(layout.n_patches, contents.patches.size());
  put_count(layout.n_continued, contents.continues ? contents.rows.size() : 0);
  put(layout.rows, contents.rows);
  put(layout.chosen, contents.wanted);
  put(layout.patches, contents.patches);
  auto* const tail = reinterpret_cast<device::Row*>(host + layout.tail_rows);
  for (size_t i = 0; i < contents.wanted.size(); ++i) tail[i] = contents.rows[static_cast<size_t>(contents.wanted[i])];
  group_rows(contents.rows, contents.most_group_rows, groups_);
  put_count(layout.n_groups, groups_.size());
  put(layout.groups, groups_);
  group_rows({tail, contents.wanted.size()}, contents.most_group_rows, groups_);
  put_count(layout.n_tail_groups, groups_.size());
  put(layout.tail_groups, groups_);
}

}  // namespace kvik::native
