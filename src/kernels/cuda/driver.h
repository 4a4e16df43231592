#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

// NVIDIA's driver API, as far as it is used here: declared by hand (tests compare it with the toolkit's header where there is one) and
// opened at run time, so that programs run on machines without it.
namespace kvik::cuda {

using Result = int;  // CUresult; 0 is success
inline constexpr Result kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100;
using DeviceIndex = int;   // CUdevice
using Pointer = uint64_t;  // CUdeviceptr
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Graph = struct CUgraph_st*;
using GraphExec = struct CUgraphExec_st*;
using Event = struct CUevent_st*;

// CUdevice_attribute, CUfunction_attribute, CUlaunchAttributeID
inline constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76, kSharedBytes = 97;
inline constexpr int kDynamicSharedBytes = 8, kSharedCarveout = 9;
inline constexpr int kClusterDimension = 4, kProgrammaticSerialization = 6;
// CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapL2promotion
inline constexpr int kMapFloat16 = 6, kMapSwizzle128 = 3, kMapPromotion256 = 3;

struct LaunchAttribute {  // CUlaunchAttribute
  int id;
  int padding;
  union {
    char bytes[64];
    int allowed;
    unsigned cluster[3];
  } value;
};
struct LaunchConfig {  // CUlaunchConfig
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned n_attributes;
};

struct Driver {
  Result (*init)(unsigned flags);
  Result (*driver_version)(int* version);
  Result (*error_string)(Result error, const char** text);
  Result (*device_count)(int* n);
  Result (*device_get)(DeviceIndex* device, int ordinal);
  Result (*device_name)(char* name, int size, DeviceIndex device);
  Result (*device_attribute)(int* value, int attribute, DeviceIndex device);
  Result (*device_memory)(size_t* bytes, DeviceIndex device);
  Result (*context_retain)(Context* context, DeviceIndex device);
  Result (*context_release)(DeviceIndex device);
  Result (*context_set)(Context context);
  Result (*memory_info)(size_t* free, size_t* total);
  Result (*allocate)(Pointer* pointer, size_t bytes);
  Result (*free)(Pointer pointer);
  Result (*allocate_host)(void** pointer, size_t bytes, unsigned flags);
  Result (*free_host)(void* pointer);
  Result (*copy_to_device)(Pointer to, const void* from, size_t bytes, Stream stream);
  Result (*copy_to_host)(void* to, Pointer from, size_t bytes, Stream stream);
  Result (*copy)(Pointer to, Pointer from, size_t bytes, Stream stream);  // of any kinds of memory
  Result (*set_bytes)(Pointer to, unsigned char value, size_t n, Stream stream);
  Result (*stream_create)(Stream* stream, unsigned flags);
  Result (*stream_destroy)(Stream stream);
  Result (*stream_wait)(Stream stream);
  Result (*event_create)(Event* event, unsigned flags);
  Result (*event_destroy)(Event event);
  Result (*event_record)(Event event, Stream stream);
  Result (*event_wait)(Event event);
  Result (*event_elapsed)(float* ms, Event from, Event to);
  Result (*capture_begin)(Stream stream, int mode);
  Result (*capture_end)(Stream stream, Graph* graph);
  Result (*graph_instantiate)(GraphExec* exec, Graph graph, unsigned long long flags);
  Result (*graph_destroy)(Graph graph);
  Result (*graph_exec_destroy)(GraphExec exec);
  Result (*graph_launch)(GraphExec exec, Stream stream);
  Result (*module_load)(Module* module, const void* image);
  Result (*module_unload)(Module module);
  Result (*module_function)(Function* function, Module module, const char* name);
  Result (*function_set)(Function function, int attribute, int value);
  Result (*encode_map)(void* map, int type, unsigned rank, void* address, const uint64_t* sizes, const uint64_t* strides,
                       const unsigned* box, const unsigned* element_strides, int interleave, int swizzle, int promotion, int fill);
  Result (*launch)(const LaunchConfig* config, Function function, void** arguments, void** extra);
};

// The entries of a driver library; empty: libcuda.so.1. Throws Error(kIo) if it cannot be opened, Error(kUnsupported) if an entry is
// missing or it is older than the kernels' toolkit.
std::shared_ptr<const Driver> open_driver(const std::filesystem::path& library = {});

// "out of memory", in the driver's words.
std::string_view describe(const Driver& driver, Result result);

}  // namespace kvik::cuda
