#pragma once

#include <memory>
#include <string>

#include "api/environment.h"
#include "kernels/device/device.h"
#include "kvik/options.h"

namespace kvik::api {

// The device that the options name, for the native backend.
struct OpenedDevice {
  std::shared_ptr<device::Device> device;  // null: the CPU
  std::string name = "cpu";                // "cpu", "cuda", "cuda:1"
  std::string missing;                     // why there is no GPU; empty if one was found or none was asked for
};
OpenedDevice open_device(const LoadOptions& options, const Environment& environment);

}  // namespace kvik::api
