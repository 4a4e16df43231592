#include <algorithm>
#include <fstream>
#include <gmock/gmock.h>
#include <set>

#include "kernels/cuda/lower.h"

namespace kvik::cuda {
namespace {

using namespace device;

Target target() {
  Target made{.n_units = 132, .shared_bytes = 225 << 10, .n_tickets = 1 << 16, .tickets = Address{64}};
  made.parts = [](size_t) { return Address{4096}; };
  return made;
}

std::vector<std::string> kernels_of(const std::vector<Action>& actions) {
  std::vector<std::string> names;
  for (const Action& action : actions) {
    const auto* launch = std::get_if<Launch>(&action);
    names.push_back(launch != nullptr ? launch->kernel : "copy");
  }
  return names;
}

Rows rows(int most, uint64_t at = 256) { return {Address{at}, Address{at + 8}, most}; }

TEST(Lower, ConsecutiveRowStepsShareALaunch) {
  const std::vector<Step> steps = {Norm{.rows = rows(1)},
                                   ToHalf{.rows = rows(1)},
                                   Matrix{.rows = rows(1), .weights = {.k = 64, .n = 64}},
                                   Elementwise{.rows = rows(1)},
                                   CopyBytes{},
                                   Elementwise{.rows = rows(1)}};
  EXPECT_THAT(kernels_of(lower(steps, target())),
              testing::ElementsAre("rows_program", "stream_f16", "rows_program", "copy", "rows_program"));
  Target apart = target();
  apart.merges_rows = false;
  EXPECT_EQ(lower(steps, apart).size(), 6u);
}

TEST(Lower, RowsOfAnotherListAndGatheredRowsStartALaunch) {
  const std::vector<Step> steps = {Norm{.rows = rows(4)}, Norm{.rows = rows(4, 512)}, GatherRows{.rows = rows(4, 512)},
                                   Norm{.rows = rows(4, 512)}};
  EXPECT_EQ(lower(steps, target()).size(), 3u);
}

TEST(Lower, ALongRunOfRowStepsIsCut) {
  const std::vector<Step> steps(40, Norm{.rows = rows(4)});
  EXPECT_EQ(lower(steps, target()).size(), 3u);
}

TEST(Lower, ProductsOfFewTilesSplitK) {
  const auto launch_of = [](int rows_of_call, int k, int n) {
    const std::vector<Step> steps = {Matrix{.rows = rows(rows_of_call), .weights = {.k = k, .n = n}}};
    return std::get<Launch>(lower(steps, target()).front());
  };
  EXPECT_EQ(launch_of(1, 1536, 151936).kernel, "stream_f16");
  EXPECT_EQ(launch_of(8, 1536, 151936).grid[0], 132u);
  EXPECT_EQ(launch_of(9, 1536, 151936).grid[1], 1u);
  EXPECT_EQ(launch_of(9, 1536, 1536).grid[1], 6u);
  EXPECT_GT(launch_of(64, 8960, 1536).grid[1], 1u);
  EXPECT_EQ(launch_of(64, 1536, 17920).kernel, "matrix_f16_8");
  EXPECT_EQ(launch_of(65, 1536, 17920).grid[2], 2u);
}

// A name that no file has would be found out only on a GPU.
TEST(Lower, StepsBecomeKernelsThatExist) {
#ifdef KVIK_CUDA_RESOURCE_LIST
  std::ifstream file(KVIK_CUDA_RESOURCE_LIST);
  std::set<std::string> listed;
  for (std::string line; std::getline(file, line);) listed.insert(line.substr(0, line.find(' ')));
  std::vector<Step> steps = {Begin{}, Norm{.rows = rows(1)}, Choose{.rows = rows(1)}};
  for (int format = 0; format < 6; ++format)
    for (const int n : {1, 8, 9, 17, 33, 64, 100})
      steps.push_back(Matrix{.rows = rows(n), .weights = {.format = static_cast<WeightFormat>(format), .k = 512, .n = 512}});
  for (const int planes : {1, 2}) {
    Attend attend{.rows = rows(1)};
    attend.groups.most = attend.parts.n_parts = 1;
    attend.layout = {.n_heads = 1, .key_dim = 64, .value_dim = 64, .planes = planes};
    steps.push_back(attend);
  }
  const std::vector<std::string> files = {"attend", "choose", "matrix_f16", "matrix_f32", "matrix_q4", "matrix_q8", "rows", "stream"};
  for (const std::string& kernel : kernels_of(lower(steps, target()))) {
    EXPECT_TRUE(listed.contains(kernel)) << kernel;
    EXPECT_TRUE(std::ranges::any_of(files, [&](const std::string& name) { return kernel.starts_with(name); })) << kernel;
  }
#else
  GTEST_SKIP() << "built without nvcc";
#endif
}

}  // namespace
}  // namespace kvik::cuda
