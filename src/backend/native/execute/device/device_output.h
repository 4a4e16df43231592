#pragma once

#include <optional>
#include <vector>

#include "backend/native/execute/device/device_program.h"
#include "backend/native/execute/device/shared_device.h"
#include "backend/native/execute/execute.h"

namespace kvik::native {

// Rows of logits of a call: those that are certainly read are in host memory, the others stay on the device until they are read, with the
// largest logits of each. They stay where they were computed until the runner needs that memory again.
class DeviceOutput final : public OutputRows {
 public:
  DeviceOutput(std::shared_ptr<SharedDevice> shared, const Runner* runner, int64_t size)
      : shared_(std::move(shared)), runner_(runner), size_(static_cast<size_t>(size)) {}

  bool is_of(const Runner& runner) const { return runner_ == &runner; }
  // Which of the runner's places for outputs the next call fills.
  int32_t place() const { return place_; }
  // Allocates what rows of `stride` bytes with this many candidates need, before anything of a call is queued.
  void reserve(std::span<const int32_t> n_candidates, int64_t stride, int32_t place);
  // Called when the steps of the call are queued: borrows its rows, waits for the device (only until `done`, if another call was started
  // behind it), and reads the candidates of each.
  void take(device::Address rows, const std::byte* choices, const ChoiceRoom& room, std::optional<device::Mark> done);
  // Copies rows that are borrowed, before their memory is used for something else.
  void keep();
  void lose();  // the rows that are borrowed: the runner ends

  std::span<const float> row(int row) override;
  std::span<const TokenLogit> candidates(int row) const override;

 private:
  void reserve_host();
  void queue_read(size_t first, size_t n_rows, device::Address rows);
  size_t row_bytes() const { return size_ * sizeof(float); }

  std::shared_ptr<SharedDevice> shared_;
  const Runner* runner_;
  size_t size_;
  size_t stride_ = 0;
  int32_t place_ = 0;
  device::Address borrowed_ = device::Address::kNone;  // [rows][stride], in the runner's memory
  DeviceBuffer rows_;                                  // the same, if they were kept
  PinnedBuffer host_;                                  // [rows][size], as far as is_read_ says
  std::vector<bool> is_read_;                          // by row: take() reads it, or it has been read
  std::vector<TokenLogit> candidates_;
  std::vector<size_t> first_candidates_;  // of each row, and the end
};

}  // namespace kvik::native
