#include <fstream>
#include <gtest/gtest.h>

#include "base/memory_info.h"
#include "support/paths.h"

namespace kvik {
namespace {

TEST(MemoryInfo, LargestCacheIsReadWithItsUnit) {
  const testing_support::TemporaryFolder folder;
  EXPECT_EQ(largest_cache_bytes(folder.path()), 0u);
  const char* const sizes[] = {"48K", "32K", "1M", "32768K"};
  for (int i = 0; i < 4; ++i) {
    const std::filesystem::path cache = folder.path() / ("index" + std::to_string(i));
    std::filesystem::create_directories(cache);
    std::ofstream(cache / "size") << sizes[i] << "\n";
  }
  EXPECT_EQ(largest_cache_bytes(folder.path()), size_t{32} << 20);
  std::ofstream(folder.path() / "index3" / "size") << "512K\n";
  EXPECT_EQ(largest_cache_bytes(folder.path()), size_t{1} << 20);
}

}  // namespace
}  // namespace kvik
