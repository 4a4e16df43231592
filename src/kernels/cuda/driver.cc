#include "kernels/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::cuda {
namespace {

constexpr int kLeastVersion = 13000;  // that runs kernels of toolkit 13.0

// Opened libraries stay open: unloading a driver in the middle of a process is not supported.
void* open_library(const std::filesystem::path& library) {
  const std::string name = library.empty() ? "libcuda.so.1" : library.string();
  if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  const char* reason = dlerror();
  throw Error(Code::kIo, fmt::format("NVIDIA's driver cannot be opened ({}); install the driver, or use --device cpu",
                                     reason != nullptr ? reason : "no reason given"));
}

class Entries {
 public:
  explicit Entries(void* handle) : handle_(handle) {}

  template <class Fn>
  void get(Fn& entry, const char* name) const {
    entry = reinterpret_cast<Fn>(dlsym(handle_, name));
    if (entry == nullptr)
      throw Error(Code::kUnsupported,
                  fmt::format("NVIDIA's driver has no entry '{}'; install driver 580 or newer, or use --device cpu", name));
  }

 private:
  void* handle_;
};

}  // namespace

std::shared_ptr<const Driver> open_driver(const std::filesystem::path& library) {
  const Entries entries(open_library(library));
  auto driver = std::make_shared<Driver>();
  entries.get(driver->driver_version, "cuDriverGetVersion");
  int version = 0;
  if (driver->driver_version(&version) != kSuccess || version < kLeastVersion) {
    throw Error(Code::kUnsupported,
                fmt::format("NVIDIA's driver supports CUDA {}.{}, and the kernels need {}.{}; install driver 580 or newer, "
                            "or use --device cpu",
                            version / 1000, version % 1000 / 10, kLeastVersion / 1000, kLeastVersion % 1000 / 10));
  }
  entries.get(driver->init, "cuInit");
  entries.get(driver->error_string, "cuGetErrorString");
  entries.get(driver->device_count, "cuDeviceGetCount");
  entries.get(driver->device_get, "cuDeviceGet");
  entries.get(driver->device_name, "cuDeviceGetName");
  entries.get(driver->device_attribute, "cuDeviceGetAttribute");
  entries.get(driver->device_memory, "cuDeviceTotalMem_v2");
  entries.get(driver->context_retain, "cuDevicePrimaryCtxRetain");
  entries.get(driver->context_release, "cuDevicePrimaryCtxRelease_v2");
  entries.get(driver->context_set, "cuCtxSetCurrent");
  entries.get(driver->memory_info, "cuMemGetInfo_v2");
  entries.get(driver->allocate, "cuMemAlloc_v2");
  entries.get(driver->free, "cuMemFree_v2");
  entries.get(driver->allocate_host, "cuMemHostAlloc");
  entries.get(driver->free_host, "cuMemFreeHost");
  entries.get(driver->copy_to_device, "cuMemcpyHtoDAsync_v2");
  entries.get(driver->copy_to_host, "cuMemcpyDtoHAsync_v2");
  entries.get(driver->copy, "cuMemcpyAsync");
  entries.get(driver->set_bytes, "cuMemsetD8Async");
  entries.get(driver->stream_create, "cuStreamCreate");
  entries.get(driver->stream_destroy, "cuStreamDestroy_v2");
  entries.get(driver->stream_wait, "cuStreamSynchronize");
  entries.get(driver->event_create, "cuEventCreate");
  entries.get(driver->event_destroy, "cuEventDestroy_v2");
  entries.get(driver->event_record, "cuEventRecord");
  entries.get(driver->event_wait, "cuEventSynchronize");
  entries.get(driver->event_elapsed, "cuEventElapsedTime_v2");
  entries.get(driver->capture_begin, "cuStreamBeginCapture_v2");
  entries.get(driver->capture_end, "cuStreamEndCapture");
  entries.get(driver->graph_instantiate, "cuGraphInstantiateWithFlags");
  entries.get(driver->graph_destroy, "cuGraphDestroy");
  entries.get(driver->graph_exec_destroy, "cuGraphExecDestroy");
  entries.get(driver->graph_launch, "cuGraphLaunch");
  entries.get(driver->module_load, "cuModuleLoadData");
  entries.get(driver->module_unload, "cuModuleUnload");
  entries.get(driver->module_function, "cuModuleGetFunction");
  entries.get(driver->function_set, "cuFuncSetAttribute");
  entries.get(driver->encode_map, "cuTensorMapEncodeTiled");
  entries.get(driver->launch, "cuLaunchKernelEx");
  return driver;
}

std::string_view describe(const Driver& driver, Result result) {
  const char* text = nullptr;
  if (driver.error_string(result, &text) != kSuccess || text == nullptr) return "unknown error";
  return text;
}

}  // namespace kvik::cuda
