#pragma once

#include "backend/native/execute/device/device_program.h"

namespace kvik::native {

// In: a plan on a device, a shape of calls and the memory for them.
// Out: steps in the order of the plan, one or a few per op, interrupted by host steps.
DeviceProgram schedule(const DevicePlan& plan, const CallShape& shape, const StepMemory& memory,
                       const std::shared_ptr<SharedDevice>& shared, size_t most_patches);

}  // namespace kvik::native
