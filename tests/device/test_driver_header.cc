// driver.h declares NVIDIA's driver API by hand: where the toolkit's header is at hand, the two are compared.
#include <gmock/gmock.h>

#include "kernels/cuda/driver.h"
#include "kernels/cuda/launches.h"

#if __has_include(<cuda.h>)
#include <cuda.h>

namespace kvik::cuda {
namespace {

// Functions that take as many arguments, each of the same size.
template <class A, class B>
constexpr bool kSameShape = false;
template <class... A, class... B>
requires(sizeof...(A) == sizeof...(B)) constexpr bool kSameShape<CUresult(A...), Result (*)(B...)> = ((sizeof(A) == sizeof(B)) && ...);

#define EXPECT_SAME(member, entry) static_assert(kSameShape<decltype(::entry), decltype(Driver::member)>, #entry)
EXPECT_SAME(init, cuInit);
EXPECT_SAME(driver_version, cuDriverGetVersion);
EXPECT_SAME(error_string, cuGetErrorString);
EXPECT_SAME(device_count, cuDeviceGetCount);
EXPECT_SAME(device_get, cuDeviceGet);
EXPECT_SAME(device_name, cuDeviceGetName);
EXPECT_SAME(device_attribute, cuDeviceGetAttribute);
EXPECT_SAME(device_memory, cuDeviceTotalMem_v2);
EXPECT_SAME(context_retain, cuDevicePrimaryCtxRetain);
EXPECT_SAME(context_release, cuDevicePrimaryCtxRelease_v2);
EXPECT_SAME(context_set, cuCtxSetCurrent);
EXPECT_SAME(memory_info, cuMemGetInfo_v2);
EXPECT_SAME(allocate, cuMemAlloc_v2);
EXPECT_SAME(free, cuMemFree_v2);
EXPECT_SAME(allocate_host, cuMemHostAlloc);
EXPECT_SAME(free_host, cuMemFreeHost);
EXPECT_SAME(copy_to_device, cuMemcpyHtoDAsync_v2);
EXPECT_SAME(copy_to_host, cuMemcpyDtoHAsync_v2);
EXPECT_SAME(copy, cuMemcpyAsync);
EXPECT_SAME(set_bytes, cuMemsetD8Async);
EXPECT_SAME(stream_create, cuStreamCreate);
EXPECT_SAME(stream_destroy, cuStreamDestroy_v2);
EXPECT_SAME(stream_wait, cuStreamSynchronize);
EXPECT_SAME(event_create, cuEventCreate);
EXPECT_SAME(event_destroy, cuEventDestroy_v2);
EXPECT_SAME(event_record, cuEventRecord);
EXPECT_SAME(event_wait, cuEventSynchronize);
EXPECT_SAME(event_elapsed, cuEventElapsedTime_v2);
EXPECT_SAME(capture_begin, cuStreamBeginCapture_v2);
EXPECT_SAME(capture_end, cuStreamEndCapture);
EXPECT_SAME(graph_instantiate, cuGraphInstantiateWithFlags);
EXPECT_SAME(graph_destroy, cuGraphDestroy);
EXPECT_SAME(graph_exec_destroy, cuGraphExecDestroy);
EXPECT_SAME(graph_launch, cuGraphLaunch);
EXPECT_SAME(module_load, cuModuleLoadData);
EXPECT_SAME(module_unload, cuModuleUnload);
EXPECT_SAME(module_function, cuModuleGetFunction);
EXPECT_SAME(function_set, cuFuncSetAttribute);
EXPECT_SAME(encode_map, cuTensorMapEncodeTiled);
EXPECT_SAME(launch, cuLaunchKernelEx);

TEST(CudaDriver, IsDeclaredAsTheToolkitDeclaresIt) {
  EXPECT_EQ(sizeof(LaunchAttribute), sizeof(CUlaunchAttribute));
  EXPECT_EQ(offsetof(LaunchAttribute, value), offsetof(CUlaunchAttribute, value));
  EXPECT_EQ(sizeof(LaunchConfig), sizeof(CUlaunchConfig));
  EXPECT_EQ(offsetof(LaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
  EXPECT_EQ(offsetof(LaunchConfig, attributes), offsetof(CUlaunchConfig, attrs));
  EXPECT_EQ(offsetof(LaunchConfig, n_attributes), offsetof(CUlaunchConfig, numAttrs));
  EXPECT_EQ(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kNoDevice, CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(kMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(kMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(kMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(kSharedBytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  EXPECT_EQ(kDynamicSharedBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_EQ(kSharedCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  EXPECT_EQ(kClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(kProgrammaticSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  EXPECT_EQ(kMapFloat16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
  EXPECT_EQ(kMapSwizzle128, CU_TENSOR_MAP_SWIZZLE_128B);
  EXPECT_EQ(kMapPromotion256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  EXPECT_EQ(sizeof(TensorMap), sizeof(CUtensorMap));
}

}  // namespace
}  // namespace kvik::cuda
#endif
