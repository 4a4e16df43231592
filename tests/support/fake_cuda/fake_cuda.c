/* Stands in for NVIDIA's driver: FAKE_VERSION is what it says it is, FAKE_DEVICES how many GPUs it has; FAKE_MISSING leaves an entry out.
   Entries that are not reached return an error. */
static int fails(void) { return 999; }

int cuDriverGetVersion(int* version) {
  *version = FAKE_VERSION;
  return 0;
}
int cuInit(unsigned flags) {
  (void)flags;
  return 0;
}
int cuDeviceGetCount(int* n) {
  *n = FAKE_DEVICES;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? 8 : 0; /* compute capability 8.0 */
  return 0;
}
#define ENTRY(name) \
  int name(void) { return fails(); }
ENTRY(cuGetErrorString)
ENTRY(cuDeviceGetName)
ENTRY(cuDeviceTotalMem_v2)
ENTRY(cuDevicePrimaryCtxRetain)
ENTRY(cuDevicePrimaryCtxRelease_v2)
ENTRY(cuCtxSetCurrent)
ENTRY(cuMemGetInfo_v2)
ENTRY(cuMemAlloc_v2)
ENTRY(cuMemFree_v2)
ENTRY(cuMemHostAlloc)
ENTRY(cuMemFreeHost)
ENTRY(cuMemcpyHtoDAsync_v2)
ENTRY(cuMemcpyDtoHAsync_v2)
ENTRY(cuMemcpyAsync)
ENTRY(cuMemsetD8Async)
ENTRY(cuStreamCreate)
ENTRY(cuStreamDestroy_v2)
ENTRY(cuStreamSynchronize)
ENTRY(cuEventCreate)
ENTRY(cuEventDestroy_v2)
ENTRY(cuEventRecord)
ENTRY(cuEventSynchronize)
ENTRY(cuEventElapsedTime_v2)
ENTRY(cuStreamBeginCapture_v2)
ENTRY(cuStreamEndCapture)
ENTRY(cuGraphInstantiateWithFlags)
ENTRY(cuGraphDestroy)
ENTRY(cuGraphExecDestroy)
ENTRY(cuGraphLaunch)
ENTRY(cuModuleLoadData)
ENTRY(cuModuleUnload)
ENTRY(cuModuleGetFunction)
ENTRY(cuFuncSetAttribute)
ENTRY(cuTensorMapEncodeTiled)
#ifndef FAKE_MISSING
ENTRY(cuLaunchKernelEx)
#endif
