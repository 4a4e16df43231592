#pragma once

#include <array>
#include <vector>

#include "backend/native/execute/device/shared_device.h"
#include "backend/native/execute/section_tables.h"

namespace kvik::native {

// Position tables in device memory: copies of those that the host has computed.
class DeviceTables {
 public:
  DeviceTables(std::shared_ptr<SharedDevice> shared, size_t n_tables) : shared_(std::move(shared)) {
    for (std::vector<Copy>& copies : copies_) copies.resize(n_tables);
  }

  // Uploads the rows of these tables that the device does not have. True if a table has moved. Throws Error(kTooLarge).
  bool update(const SectionTables& tables, std::span<const int> used);

  // Of the rows that update() has uploaded; `offset` is in bytes.
  device::View view(int table, int64_t offset) const;

 private:
  struct Copy {
    DeviceBuffer rows;
    int64_t row_bytes = 0;
    int64_t n_rows = 0;
  };
  bool update(Copy& copy, const PositionTables& tables, int table);

  std::shared_ptr<SharedDevice> shared_;
  std::array<std::vector<Copy>, 2> copies_;  // up to Plan::switch_after, and beyond
};

}  // namespace kvik::native
