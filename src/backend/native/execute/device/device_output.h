#pragma once

#include <optional>
#include <vector>

#include "backend/native/execute/device/device_program.h"
#include "backend/native/execute/device/shared_device.h"
#include "backend/native/execute/execute.h"

namespace kvik::native {

// Rows of logits that stay on the device until somebody reads them, with the largest of each.
class DeviceOutput final : public OutputRows {
 public:
  DeviceOutput(std::shared_ptr<SharedDevice> shared, const Runner* runner, int64_t size)
      : shared_(std::move(shared)), runner_(runner), size_(static_cast<size_t>(size)) {}

  bool is_of(const Runner& runner) const { return runner_ == &runner; }
  // Memory for rows of `stride` bytes. Before anything of a call is queued.
  void reserve(size_t n_rows, int64_t stride);
  // Copies rows and reads what was chosen of each. Waits for the device.
  void take(device::Address rows, device::Address choices, const ChoiceRoom& room, size_t n_rows);

  void read(int row, std::span<float> to) override;
  std::span<const TokenLogit> candidates(int row) const override;

 private:
  std::shared_ptr<SharedDevice> shared_;
  const Runner* runner_;
  size_t size_;
  size_t stride_ = 0;
  DeviceBuffer rows_;
  std::vector<std::byte> choices_;  // as the device writes them
  std::vector<TokenLogit> candidates_;
  std::vector<size_t> first_candidates_;  // of each row, and the end
};

}  // namespace kvik::native
