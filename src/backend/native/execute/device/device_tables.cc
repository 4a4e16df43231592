#include "backend/native/execute/device/device_tables.h"

namespace kvik::native {

bool DeviceTables::update(const SectionTables& tables, std::span<const int> used) {
  bool moved = false;
  for (const bool beyond : {false, true}) {
    for (const int table : used) {
      if (!tables.has(beyond)) continue;
      moved = update(copies_[beyond ? 1 : 0][static_cast<size_t>(table)], tables.rows(beyond), table) || moved;
    }
  }
  return moved;
}

bool DeviceTables::update(Copy& copy, const PositionTables& tables, int table) {
  const int64_t n_rows = tables.n_rows(table), row_bytes = tables.row_bytes(table);
  if (n_rows <= copy.n_rows) return false;
  const auto n_bytes = static_cast<size_t>(n_rows * row_bytes);
  const bool moves = copy.rows.size_bytes() < n_bytes;
  if (moves) {
    copy.rows = DeviceBuffer(shared_, n_bytes + n_bytes / 2, "the position tables");
    copy.n_rows = 0;
    copy.row_bytes = row_bytes;
  }
  const auto known = static_cast<size_t>(copy.n_rows * row_bytes);
  copy.rows.write(known, {tables.row(table, copy.n_rows), n_bytes - known});
  copy.n_rows = n_rows;
  return moves;
}

device::View DeviceTables::view(int table, int64_t offset) const {
  const Copy& upto = copies_[0][static_cast<size_t>(table)];
  const Copy& beyond = copies_[1][static_cast<size_t>(table)];
  device::View view{.stride = std::max(upto.row_bytes, beyond.row_bytes), .by_position = true};
  if (upto.n_rows > 0) view.base = upto.rows.address() + offset;
  if (beyond.n_rows > 0) view.beyond = beyond.rows.address() + offset;
  return view;
}

}  // namespace kvik::native
