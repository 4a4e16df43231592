#pragma once

#include <cstddef>
#include <cstdint>

// The part of ONNX Runtime's C API that Kvik uses. The API is a table of functions to which releases only append, so entries are
// addressed by index, and no header of the runtime is needed to build.
namespace kvik::backend::ort {

struct Env;
struct Status;
struct MemoryInfo;
struct Session;
struct SessionOptions;
struct RunOptions;
struct Value;
struct TypeInfo;
struct TensorInfo;
struct IoBinding;
struct CudaOptions;

inline constexpr uint32_t kApiVersion = 14;  // since ONNX Runtime 1.14

// What OrtGetApiBase() points to.
struct ApiBase {
  const void* const* (*get_api)(uint32_t version);
  const char* (*get_version_string)();
};

template <size_t kIndex, class Signature>
struct Entry;

template <size_t kIndex, class Result, class... Args>
struct Entry<kIndex, Result(Args...)> {
  const void* const* table = nullptr;
  Result operator()(Args... args) const { return reinterpret_cast<Result (*)(Args...)>(const_cast<void*>(table[kIndex]))(args...); }
};

// The runtime reads only the entries of the version given first.
struct Allocator {
  uint32_t version;
  void* (*alloc)(Allocator*, size_t);
  void (*free)(Allocator*, void*);
  const MemoryInfo* (*info)(const Allocator*);
};

enum class LoggingLevel : int { kVerbose, kInfo, kWarning, kError, kFatal };
enum class AllocatorType : int { kDevice = 0, kArena = 1 };
enum class MemoryType : int { kDefault = 0 };

struct Api {
  explicit Api(const void* const* table) {
    const auto set = [&](auto&... entries) { ((entries.table = table), ...); };
    set(get_error_message, create_env, disable_telemetry, create_session, create_session_from_array, create_session_options,
        disable_memory_pattern, set_log_severity, set_optimization, set_intra_threads, create_tensor_with_data, get_tensor_data,
        get_element_type, get_dimensions_count, get_dimensions, get_tensor_info, create_memory_info, create_cpu_memory_info, allocator_free,
        default_allocator, release_env, release_status, release_memory_info, release_session, release_value, release_tensor_info,
        release_session_options, available_providers, release_available_providers, add_session_config, run_with_binding, create_io_binding,
        release_io_binding, bind_input, bind_output_to_device, get_bound_output_values, register_allocator, append_cuda,
        create_cuda_options, update_cuda_options, release_cuda_options);
  }

  Entry<2, const char*(const Status*)> get_error_message;
  Entry<3, Status*(LoggingLevel, const char*, Env**)> create_env;
  Entry<6, Status*(const Env*)> disable_telemetry;
  Entry<7, Status*(const Env*, const char*, const SessionOptions*, Session**)> create_session;
  Entry<8, Status*(const Env*, const void*, size_t, const SessionOptions*, Session**)> create_session_from_array;
  Entry<10, Status*(SessionOptions**)> create_session_options;
  Entry<17, Status*(SessionOptions*)> disable_memory_pattern;
  Entry<22, Status*(SessionOptions*, int)> set_log_severity;
  Entry<23, Status*(SessionOptions*, int)> set_optimization;
  Entry<24, Status*(SessionOptions*, int)> set_intra_threads;
  Entry<49, Status*(const MemoryInfo*, void*, size_t, const int64_t*, size_t, int, Value**)> create_tensor_with_data;
  Entry<51, Status*(Value*, void**)> get_tensor_data;
  Entry<60, Status*(const TensorInfo*, int*)> get_element_type;
  Entry<61, Status*(const TensorInfo*, size_t*)> get_dimensions_count;
  Entry<62, Status*(const TensorInfo*, int64_t*, size_t)> get_dimensions;
  Entry<65, Status*(const Value*, TensorInfo**)> get_tensor_info;
  Entry<68, Status*(const char*, AllocatorType, int, MemoryType, MemoryInfo**)> create_memory_info;
  Entry<69, Status*(AllocatorType, MemoryType, MemoryInfo**)> create_cpu_memory_info;
  Entry<76, Status*(Allocator*, void*)> allocator_free;
  Entry<78, Status*(Allocator**)> default_allocator;
  Entry<92, void(Env*)> release_env;
  Entry<93, void(Status*)> release_status;
  Entry<94, void(MemoryInfo*)> release_memory_info;
  Entry<95, void(Session*)> release_session;
  Entry<96, void(Value*)> release_value;
  Entry<99, void(TensorInfo*)> release_tensor_info;
  Entry<100, void(SessionOptions*)> release_session_options;
  Entry<125, Status*(char***, int*)> available_providers;
  Entry<126, Status*(char**, int)> release_available_providers;
  Entry<130, Status*(SessionOptions*, const char*, const char*)> add_session_config;
  Entry<133, Status*(Session*, const RunOptions*, const IoBinding*)> run_with_binding;
  Entry<134, Status*(Session*, IoBinding**)> create_io_binding;
  Entry<135, void(IoBinding*)> release_io_binding;
  Entry<136, Status*(IoBinding*, const char*, const Value*)> bind_input;
  Entry<138, Status*(IoBinding*, const char*, const MemoryInfo*)> bind_output_to_device;
  Entry<140, Status*(const IoBinding*, Allocator*, Value***, size_t*)> get_bound_output_values;
  Entry<176, Status*(Env*, Allocator*)> register_allocator;
  Entry<204, Status*(SessionOptions*, const CudaOptions*)> append_cuda;
  Entry<205, Status*(CudaOptions**)> create_cuda_options;
  Entry<206, Status*(CudaOptions*, const char* const*, const char* const*, size_t)> update_cuda_options;
  Entry<208, void(CudaOptions*)> release_cuda_options;
};

}  // namespace kvik::backend::ort
