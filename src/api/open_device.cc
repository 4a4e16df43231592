#include "api/open_device.h"

#include <fmt/format.h>

#include "kernels/cuda/cuda_device.h"
#include "kvik/error.h"

namespace kvik::api {

OpenedDevice open_device(const LoadOptions& options, const Environment& environment) {
  OpenedDevice opened;
  if (options.device == Device::kCpu) return opened;
  cuda::CudaOptions cuda;
  cuda.index = options.device_index;
  cuda.kernels.library = options.cuda_library.empty() ? environment.cuda_library : options.cuda_library;
  try {
    opened.device = cuda::open_device(cuda);
    opened.name = options.device_index == 0 ? "cuda" : fmt::format("cuda:{}", options.device_index);
  } catch (const Error& e) { opened.missing = e.what(); }
  return opened;
}

}  // namespace kvik::api
