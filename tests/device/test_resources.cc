// What ptxas says of each kernel, against tests/kernels/cuda-resources.txt: no kernel spills, and none takes more registers than it had.
// Both cost speed that no other test without a GPU would notice.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <regex>
#include <sstream>

namespace kvik {
namespace {

struct Resources {
  int n_registers = 0, spill_bytes = 0;
};

[[maybe_unused]] std::map<std::string, Resources> compiled_kernels(const std::filesystem::path& folder) {
  static const std::regex kName("Compiling entry function '([a-z0-9_]+)'"),
      kSpills("([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads"), kRegisters("Used ([0-9]+) registers");
  std::map<std::string, Resources> kernels;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".resources") continue;
    std::ifstream file(entry.path());
    std::string name;
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (std::regex_search(line, match, kName)) name = match[1];
      if (std::regex_search(line, match, kSpills)) kernels[name].spill_bytes += std::stoi(match[1]) + std::stoi(match[2]);
      if (std::regex_search(line, match, kRegisters)) kernels[name].n_registers = std::stoi(match[1]);
    }
  }
  return kernels;
}

TEST(CudaKernels, SpillNothingAndTakeNoMoreRegistersThanListed) {
#ifndef KVIK_CUDA_RESOURCES
  GTEST_SKIP() << "built without nvcc";
#else
  if (!std::filesystem::exists(KVIK_CUDA_RESOURCES "/rows.resources")) GTEST_SKIP() << "the kernels have not been compiled";
  std::ifstream list(KVIK_CUDA_RESOURCE_LIST);
  std::map<std::string, int> listed;
  for (std::string line; std::getline(list, line);) {
    std::istringstream fields(line);
    std::string name;
    int n_registers = 0;
    if (!line.starts_with("#") && fields >> name >> n_registers) listed[name] = n_registers;
  }
  const std::map<std::string, Resources> kernels = compiled_kernels(KVIK_CUDA_RESOURCES);
  for (const auto& [name, resources] : kernels) {
    EXPECT_EQ(resources.spill_bytes, 0) << name;
    ASSERT_TRUE(listed.contains(name)) << name << " is not in tests/kernels/cuda-resources.txt";
    EXPECT_LE(resources.n_registers, listed[name]) << name;
  }
  EXPECT_EQ(kernels.size(), listed.size());
#endif
}

}  // namespace
}  // namespace kvik
