#pragma once

#include <memory>
#include <string>

#include "api/environment.h"
#include "kernels/device/device.h"
#include "kvik/options.h"

namespace kvik::api {

// The device selected by the options, for the native backend.
struct OpenedDevice {
  std::shared_ptr<device::Device> device;  // null: the CPU
  std::string name = "cpu";                // "cpu", "cuda", "cuda:1"
  std::string missing;                     // why no GPU could be opened; empty if one was opened or none was requested
};
OpenedDevice open_device(const LoadOptions& options, const Environment& environment);

}  // namespace kvik::api
