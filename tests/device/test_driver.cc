// What a user reads where there is no driver, no GPU, or one that the kernels are not for.
#include <gmock/gmock.h>

#include "device/built_file.h"
#include "kernels/cuda/cuda_device.h"
#include "kvik/error.h"

namespace kvik::cuda {
namespace {

using testing::HasSubstr;

std::string fake(const std::string& driver) { return testing_support::built_file(std::filesystem::path(KVIK_FAKE_CUDA) / driver); }

std::string message_of(const std::string& driver, CudaOptions options = {}) {
  options.driver = fake(driver);
  try {
    open_device(options);
  } catch (const Error& error) { return error.what(); }
  return "";
}

TEST(CudaDriver, ThatIsMissingIsSaid) { EXPECT_THAT(message_of("libcuda-nowhere.so"), HasSubstr("cannot be opened")); }

TEST(CudaDriver, WithoutAnEntryIsSaidByTheEntrysName) {
  EXPECT_THAT(message_of("libfake_cuda_missing.so"), HasSubstr("no entry 'cuLaunchKernelEx'"));
}

TEST(CudaDriver, ThatIsTooOldIsSaidWithBothVersions) {
  EXPECT_THAT(message_of("libfake_cuda_old.so"), testing::AllOf(HasSubstr("CUDA 12.4"), HasSubstr("13.0")));
}

TEST(CudaDriver, WithoutAGpuIsSaid) { EXPECT_THAT(message_of("libfake_cuda_none.so"), HasSubstr("no NVIDIA GPU")); }

TEST(CudaDriver, OfAnotherArchitectureIsSaid) {
  EXPECT_THAT(message_of("libfake_cuda_other.so"), testing::AllOf(HasSubstr("8.0"), HasSubstr("9.0")));
  EXPECT_THAT(message_of("libfake_cuda_other.so", {.index = 3}), HasSubstr("no GPU 3"));
}

TEST(CudaKernels, ThatAreMissingOrOfAnotherKindAreSaid) {
  EXPECT_THROW(open_kernels({.library = "/nowhere/libkvik-cuda.so"}), Error);
  try {
    open_kernels({.library = fake("libfake_cuda_none.so")});
    FAIL();
  } catch (const Error& error) { EXPECT_THAT(error.what(), HasSubstr("has no kernels")); }
}

}  // namespace
}  // namespace kvik::cuda
