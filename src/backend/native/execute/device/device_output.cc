#include "backend/native/execute/device/device_output.h"

#include <cstring>

namespace kvik::native {

void DeviceOutput::reserve(size_t n_rows, int64_t stride) {
  stride_ = static_cast<size_t>(stride);
  if (n_rows * stride_ <= rows_.size_bytes()) return;
  rows_ = DeviceBuffer();
  rows_ = DeviceBuffer(shared_, n_rows * stride_, "logits");
}

void DeviceOutput::take(device::Address rows, device::Address choices, const ChoiceRoom& room, size_t n_rows) {
  const std::lock_guard lock(shared_->mutex);
  shared_->device->copy(rows_.address(), rows, n_rows * stride_);
  candidates_.clear();
  first_candidates_.assign(1, 0);
  if (room.top == 0) {
    first_candidates_.resize(n_rows + 1, 0);
    return shared_->device->wait();
  }
  choices_.resize(std::max(choices_.size(), n_rows * room.row_bytes()));
  shared_->device->read(std::span(choices_).first(n_rows * room.row_bytes()), choices);
  for (size_t row = 0; row < n_rows; ++row) {
    const std::byte* at = choices_.data() + row * room.row_bytes();
    int32_t n = 0;
    std::memcpy(&n, at, sizeof n);
    for (int32_t i = 0; n <= room.room && i < n; ++i) {  // more than there is room for: they are not there
      device::Choice choice{};
      std::memcpy(&choice, at + 16 + static_cast<size_t>(i) * sizeof choice, sizeof choice);
      candidates_.push_back({choice.logit, choice.id});
    }
    first_candidates_.push_back(candidates_.size());
  }
}

void DeviceOutput::read(int row, std::span<float> to) {
  const std::lock_guard lock(shared_->mutex);
  shared_->device->read(std::as_writable_bytes(to), rows_.address() + static_cast<int64_t>(static_cast<size_t>(row) * stride_));
}

std::span<const TokenLogit> DeviceOutput::candidates(int row) const {
  const auto i = static_cast<size_t>(row);
  return std::span(candidates_).subspan(first_candidates_[i], first_candidates_[i + 1] - first_candidates_[i]);
}

}  // namespace kvik::native
