#pragma once

namespace kvik::device {

class Device;

// How many bytes a device reads and writes per nanosecond when it copies memory that is larger than its caches; measured now. Throws
// Error(kTooLarge) if it has no room for that.
double copy_bandwidth_gb_per_s(Device& device);

}  // namespace kvik::device
