#pragma once

#include <memory>
#include <vector>

#include "backend/native/execute/cpu/attend_layouts.h"
#include "backend/native/execute/device/device_weights.h"
#include "backend/native/place/place.h"
#include "kernels/device/kv_layout.h"

namespace kvik::native {

// One attention of a plan: the location of its keys and values in a page, and the inputs of its steps. If no kernel supports it, its part
// of a page has the CPU's layout, and host steps work on it.
struct DeviceAttend {
  bool on_device = false;
  device::KvLayout layout;   // on_device
  cpu::Attention on_host{};  // otherwise; page_offset 0
  int64_t page_offset = 0;   // in pages of the sequence, or of the source
  int64_t page_bytes = 0;    // of this attention
  device::AttendRule rule;
  device::Address heads = device::Address::kNone, first_heads = device::Address::kNone;
  int32_t most_heads = 0;  // of a KV head
};

// A plan and all of its data that stays on the device.
struct DevicePlan {
  DevicePlan(std::shared_ptr<const Plan> plan, DeviceWeights weights, cpu::KvFormat kv, const std::shared_ptr<SharedDevice>& shared);

  bool has_kernel(OpIndex op) const { return on_device[static_cast<size_t>(op)]; }
  device::Address constant(const Input& input) const;  // of a constant that a device op reads
  device::Address move_runs(OpIndex op) const { return constants.address() + runs_at[static_cast<size_t>(op)]; }

  std::shared_ptr<const Plan> plan;
  DeviceWeights weights;
  Placement placement;
  std::vector<bool> on_device;  // by op
  std::vector<DeviceAttend> attends;
  int64_t page_bytes = 0, source_page_bytes = 0;
  int64_t half_bytes = 0;  // of one row, at most: inputs of products

  DeviceBuffer constants;
  std::vector<int64_t> constant_at;  // by constant; -1: no step reads it
  std::vector<int64_t> runs_at;      // by op
};

// Rows of a product as its steps hold them.
struct HalfRows {
  int32_t parts = 1, k = 0, planes = 1, padded_k = 0;
  int64_t scale_offset() const { return int64_t{parts} * planes * padded_k * 2; }
  int64_t row_bytes() const { return (scale_offset() + parts * 4 + 63) / 64 * 64; }
  friend bool operator==(const HalfRows&, const HalfRows&) = default;
};
HalfRows half_rows(const DevicePlan& plan, const Op& op, int weight);

// Whether a device step computes it, if its weights are on the device. Others are host steps.
bool has_device_kernel(const Plan& plan, const Op& op, cpu::KvFormat kv);

}  // namespace kvik::native
