// Laws on a real GPU: CUDA has the bits of the definition (HostDevice), however steps are launched. They run where KVIK_TEST_CUDA is set.
#include <cstdlib>
#include <gmock/gmock.h>

#include "device/scenario.h"
#include "kernels/cuda/cuda_device.h"
#include "kvik/error.h"
#include "support/host_device/host_device.h"

namespace kvik::testing_support {
namespace {

using device::Device;

std::shared_ptr<Device> open_gpu(cuda::CudaOptions options = {}) {
  if (std::getenv("KVIK_TEST_CUDA") == nullptr) return nullptr;
  if (const char* library = std::getenv("KVIK_CUDA_LIB")) options.kernels.library = library;
  return cuda::open_device(options);
}

#define OPEN_GPU(...)    \
  open_gpu(__VA_ARGS__); \
  if (std::getenv("KVIK_TEST_CUDA") == nullptr) GTEST_SKIP() << "no GPU to test"

std::vector<ScenarioCase> all_cases() {
  std::vector<ScenarioCase> cases = row_step_cases();
  for (auto* more : {&matrix_cases, &attention_cases, &decode_cases, &chain_cases, &fused_cases})
    for (ScenarioCase& one : more()) cases.push_back(std::move(one));
  return cases;
}

void expect_equal_bits(Device& a, Device& b, const std::vector<ScenarioCase>& cases, const HowToRun& how = {}) {
  for (const ScenarioCase& one : cases) EXPECT_EQ(difference(run_on(a, one), run_on(b, one, how)), "") << one.name;
}

TEST(Cuda, RowStepsHaveTheBitsOfTheDefinition) {
  const auto gpu = OPEN_GPU();
  HostDevice host;
  expect_equal_bits(host, *gpu, row_step_cases());
}

TEST(Cuda, MatrixProductsHaveTheBitsOfTheDefinition) {
  const auto gpu = OPEN_GPU();
  HostDevice host;
  expect_equal_bits(host, *gpu, matrix_cases());
}

TEST(Cuda, AttentionHasTheBitsOfTheDefinition) {
  const auto gpu = OPEN_GPU();
  HostDevice host;
  expect_equal_bits(host, *gpu, attention_cases());
}

// Recorded, so that rotary, append, attention and merging are one launch.
TEST(Cuda, DecodeAttentionHasTheBitsOfTheDefinition) {
  const auto gpu = OPEN_GPU();
  HostDevice host;
  expect_equal_bits(host, *gpu, decode_cases(), {.recorded = true});
}

TEST(Cuda, ChainsOfRowStepsHaveTheBitsOfTheDefinition) {
  const auto gpu = OPEN_GPU();
  HostDevice host;
  expect_equal_bits(host, *gpu, chain_cases(), {.recorded = true});
}

TEST(Cuda, FusedProductsHaveTheBitsOfTheDefinition) {
  const auto gpu = OPEN_GPU();
  HostDevice host;
  expect_equal_bits(host, *gpu, fused_cases(), {.recorded = true, .replays = 2});
}

TEST(Cuda, FusedProductsHaveTheBitsOfStepsAlone) {
  const auto gpu = OPEN_GPU();
  const auto plain = OPEN_GPU({.fuses_products = false});
  for (const ScenarioCase& one : fused_cases())
    EXPECT_EQ(difference(run_on(*gpu, one, {.recorded = true}), run_on(*plain, one, {.recorded = true})), "") << one.name;
}

TEST(Cuda, QuickKernelsHaveTheBitsOfTheOthers) {
  const auto gpu = OPEN_GPU();
  const auto general = OPEN_GPU({.quick_kernels = false});
  for (auto* cases : {&fused_cases, &decode_cases})
    for (const ScenarioCase& one : cases())
      EXPECT_EQ(difference(run_on(*gpu, one, {.recorded = true}), run_on(*general, one, {.recorded = true})), "") << one.name;
}

TEST(Cuda, WarpsThatTakeSpansHaveTheBitsOfBlocksThatDo) {
  const auto blocks = OPEN_GPU({.span_warps = cuda::SpanWarps::kNever});
  for (const auto& [name, how] : {std::pair{"short rings", cuda::SpanWarps::kShort}, std::pair{"deep rings", cuda::SpanWarps::kDeep}}) {
    const auto warps = OPEN_GPU({.span_warps = how});
    for (const ScenarioCase& one : decode_cases())
      EXPECT_EQ(difference(run_on(*warps, one, {.recorded = true, .replays = 2}), run_on(*blocks, one, {.recorded = true, .replays = 2})),
                "")
          << one.name << ", " << name;
  }
}

TEST(Cuda, RecordedStepsHaveTheBitsOfPlainLaunches) {
  const auto gpu = OPEN_GPU();
  expect_equal_bits(*gpu, *gpu, all_cases(), {.recorded = true, .replays = 3});
}

TEST(Cuda, FewMultiprocessorsHaveTheBitsOfAll) {
  const auto gpu = OPEN_GPU();
  for (const int n_units : {1, 7}) {
    const auto few = OPEN_GPU({.n_units = n_units});
    expect_equal_bits(*gpu, *few, all_cases(), {.recorded = true});
  }
}

TEST(Cuda, StepsInLaunchesOfTheirOwnHaveTheBitsOfMergedOnes) {
  const auto gpu = OPEN_GPU();
  const auto plain = OPEN_GPU({.merges_rows = false,
                               .wide_products = false,
                               .fuses_attention = false,
                               .chains_rows = false,
                               .quick_kernels = false,
                               .overlaps = false});
  for (const ScenarioCase& one : all_cases())
    EXPECT_EQ(difference(run_on(*gpu, one, {.recorded = true}), run_on(*plain, one, {.recorded = true})), "") << one.name;
}

// A large product, so that k is split over blocks: its rows alone, and at every place of batches of all sizes.
TEST(Cuda, RowsHaveTheSameBitsAloneAndInEveryColumnOfABatch) {
  const auto gpu = OPEN_GPU();
  for (const auto format : {device::WeightFormat::kF16, device::WeightFormat::kQ8, device::WeightFormat::kQ4, device::WeightFormat::kF32}) {
    for (const int64_t k : {1536, 8960}) {
      constexpr int kMost = 300;
      constexpr int64_t kColumns = 1536;
      const int planes = format == device::WeightFormat::kF32 ? 2 : 1;
      Scenario memory(*gpu, 7);
      const device::Weights weights = memory.weights(format, k, kColumns);
      const device::View x = memory.values(kMost, k);
      const auto product = [&](int first, int n) {
        Scenario s(*gpu, 1);
        const device::Rows rows = s.rows(n, n);
        device::View from = x;
        from.base = device::Address{static_cast<uint64_t>(x.base) + static_cast<uint64_t>(first * x.stride)};
        device::ToHalf half{.rows = rows, .x = from, .k = static_cast<int32_t>(k), .planes = planes, .padded_k = static_cast<int32_t>(k)};
        half.out = s.scratch(n, planes * k * 2);
        half.scale = s.scratch(n, 4);
        s.add(half);
        s.add(device::Matrix{.rows = rows, .x = half.out, .scale = half.scale, .weights = weights, .out = s.output(n, kColumns * 4)});
        return s.run({.recorded = true});
      };
      const std::vector<uint32_t> all = product(0, kMost);
      for (const int n : {1, 2, 7, 9, 16, 31, 64, 65, 128, 200}) {
        for (int first = 0; first + n <= kMost; first += n == 1 ? 3 : 23) {
          const std::vector<uint32_t> some = product(first, n);
          const std::span same(all.data() + first * kColumns, some.size());
          ASSERT_EQ(difference(same, some), "") << n << " rows from " << first << " on, k " << k << ", format " << static_cast<int>(format);
        }
      }
    }
  }
}

TEST(Cuda, TooMuchMemoryIsRefusedAndTheDeviceGoesOn) {
  const auto gpu = OPEN_GPU();
  EXPECT_THROW(gpu->allocate(size_t{1} << 46, "a test"), Error);
  HostDevice host;
  const std::vector<ScenarioCase> cases = matrix_cases();
  expect_equal_bits(host, *gpu, {cases.front()});
}

}  // namespace
}  // namespace kvik::testing_support
