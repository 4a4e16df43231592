#pragma once

#include <span>
#include <vector>

#include "backend/native/execute/cpu/load_weights.h"
#include "backend/native/execute/device/shared_device.h"
#include "base/log.h"
#include "base/thread_pool.h"

namespace kvik::native {

// The matrices of a plan on a device. Those without a device kernel stay on the host, for host steps.
struct DeviceWeights {
  std::vector<device::Weights> of_weight;  // no units: it is on the host
  std::vector<LoadedWeight> on_host;       // packed for the CPU, or empty
  std::vector<DeviceBuffer> buffers;

  bool has(int weight) const { return of_weight[static_cast<size_t>(weight)].units != device::Address::kNone; }
};

// Throws as load_weights() does, and Error(kTooLarge) with both sizes, before anything is read, if they do not fit into device memory.
DeviceWeights load_device_weights(const Plan& plan, WeightChoice choice, const std::shared_ptr<SharedDevice>& shared, ThreadPool& pool,
                                  const Log& log);

}  // namespace kvik::native
