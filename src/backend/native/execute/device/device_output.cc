#include "backend/native/execute/device/device_output.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kvik/error.h"

namespace kvik::native {

void DeviceOutput::reserve(std::span<const int32_t> n_candidates, int64_t stride, int32_t place) {
  borrowed_ = device::Address::kNone;
  stride_ = static_cast<size_t>(stride);
  place_ = place;
  is_read_.clear();
  for (const int32_t n : n_candidates) is_read_.push_back(choice_room(n).top == 0);
  if (std::ranges::find(is_read_, true) != is_read_.end()) reserve_host();
}

void DeviceOutput::keep() {
  const std::lock_guard lock(shared_->mutex);
  if (borrowed_ == device::Address::kNone) return;
  if (std::ranges::find(is_read_, false) != is_read_.end()) {
    if (is_read_.size() * stride_ > rows_.size_bytes()) {
      rows_ = DeviceBuffer();
      rows_ = DeviceBuffer(shared_, std::bit_ceil(is_read_.size()) * stride_, "logits");  // of few sizes, so that it soon serves every call
    }
    shared_->device->copy(rows_.address(), borrowed_, is_read_.size() * stride_);
  }
  borrowed_ = device::Address::kNone;
}

void DeviceOutput::reserve_host() {
  if (is_read_.size() * row_bytes() <= host_.size_bytes()) return;
  host_ = PinnedBuffer();
  host_ = PinnedBuffer(shared_, std::bit_ceil(is_read_.size()) * row_bytes());
}

void DeviceOutput::queue_read(size_t first, size_t n_rows, device::Address rows) {
  const bool dense = stride_ == row_bytes();
  for (size_t i = first; i < first + n_rows; i += dense ? n_rows : 1) {
    const size_t n_bytes = dense ? n_rows * row_bytes() : row_bytes();
    shared_->device->copy(host_.address() + static_cast<int64_t>(i * row_bytes()), rows + static_cast<int64_t>(i * stride_), n_bytes);
  }
}

void DeviceOutput::take(device::Address rows, const std::byte* choices, const ChoiceRoom& room, std::optional<device::Mark> done) {
  const std::lock_guard lock(shared_->mutex);
  const size_t n_rows = is_read_.size();
  borrowed_ = rows;
  for (size_t first = 0, end = 0; first < n_rows; first = end + 1) {
    for (end = first; end < n_rows && is_read_[end];) ++end;
    if (end > first) queue_read(first, end - first, rows);
  }
  if (done)
    shared_->device->wait(*done);
  else
    shared_->device->wait();
  candidates_.clear();
  first_candidates_.assign(1, 0);
  for (size_t row = 0; row < n_rows; ++row) {
    int32_t n = 0;
    if (room.top > 0) std::memcpy(&n, choices + row * room.row_bytes(), sizeof n);
    for (int32_t i = 0; n <= room.room && i < n; ++i) {  // more than there is room for: they are not there
      device::Choice choice{};
      std::memcpy(&choice, choices + row * room.row_bytes() + 16 + static_cast<size_t>(i) * sizeof choice, sizeof choice);
      candidates_.push_back({choice.logit, choice.id});
    }
    first_candidates_.push_back(candidates_.size());
  }
}

void DeviceOutput::lose() {
  const std::lock_guard lock(shared_->mutex);
  if (borrowed_ == device::Address::kNone) return;
  borrowed_ = device::Address::kNone;
  rows_ = DeviceBuffer();  // of an earlier call
}

std::span<const float> DeviceOutput::row(int row) {
  const std::lock_guard lock(shared_->mutex);
  const auto i = static_cast<size_t>(row);
  if (!is_read_[i]) {
    const device::Address rows = borrowed_ != device::Address::kNone ? borrowed_ : rows_.address();
    if (rows == device::Address::kNone)
      throw Error(Code::kInternal, "the logits on the device were not read before their model was closed");
    reserve_host();
    shared_->device->read({host_.data() + i * row_bytes(), row_bytes()}, rows + static_cast<int64_t>(i * stride_));
    is_read_[i] = true;
  }
  return {reinterpret_cast<const float*>(host_.data()) + i * size_, size_};
}

std::span<const TokenLogit> DeviceOutput::candidates(int row) const {
  const auto i = static_cast<size_t>(row);
  return std::span(candidates_).subspan(first_candidates_[i], first_candidates_[i + 1] - first_candidates_[i]);
}

}  // namespace kvik::native
