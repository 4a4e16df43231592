#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <thread>
#include <vector>

#include "base/arena.h"

namespace kvik {
namespace {

struct Filled {
  std::byte* data = nullptr;
  size_t size_bytes = 0;
  std::byte with{};
};

bool is_intact(const Filled& block) {
  return std::all_of(block.data, block.data + block.size_bytes, [&](std::byte b) { return b == block.with; });
}

// About a hundred live blocks of very different sizes; each is filled with its own value and must keep it until it is freed.
void churn(Arena& arena, unsigned seed, int n_steps) {
  std::mt19937 random(seed);
  std::vector<Filled> blocks;
  for (int step = 0; step < n_steps; ++step) {
    if (blocks.size() < 100 || random() % 2 == 0) {
      Filled block;
      block.size_bytes = random() % (size_t{1} << (random() % 18));
      block.data = static_cast<std::byte*>(arena.allocate(block.size_bytes));
      block.with = static_cast<std::byte>(random());
      ASSERT_NE(block.data, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(block.data) % 64, 0u);
      std::memset(block.data, static_cast<int>(block.with), block.size_bytes);
      blocks.push_back(block);
      continue;
    }
    std::swap(blocks[random() % blocks.size()], blocks.back());
    ASSERT_TRUE(is_intact(blocks.back()));
    arena.free(blocks.back().data);
    blocks.pop_back();
  }
  for (const Filled& block : blocks) {
    ASSERT_TRUE(is_intact(block));
    arena.free(block.data);
  }
}

TEST(Arena, BlocksNeverOverlapAndAllMemoryIsReleased) {
  Arena arena;
  for (unsigned seed = 0; seed < 5; ++seed) {
    churn(arena, seed, 5000);
    EXPECT_EQ(arena.reserved_bytes(), 0u);
  }
}

TEST(Arena, SeveralThreadsCanUseIt) {
  Arena arena;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back([&arena, seed] { churn(arena, seed, 2000); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.reserved_bytes(), 0u);
}

TEST(Arena, ReservesAtMostFourTimesACacheThatGrowsByCopying) {
  Arena arena;
  const size_t n_tensors = 16, row = 1024;
  std::vector<void*> past(n_tensors, nullptr);
  for (size_t length = 1; length <= 4000; ++length) {
    for (void*& tensor : past) {
      void* present = arena.allocate(length * row);
      arena.free(tensor);
      tensor = present;
    }
  }
  EXPECT_LE(arena.reserved_bytes(), 4 * n_tensors * 4000 * row);
  for (void* tensor : past) arena.free(tensor);
  EXPECT_EQ(arena.reserved_bytes(), 0u);
}

TEST(Arena, ReleasesAPeakWhileLittleIsInUse) {
  Arena arena;
  void* kept = arena.allocate(1000);
  std::vector<void*> peak;
  for (int i = 0; i < 16; ++i) peak.push_back(arena.allocate(size_t{32} << 20));
  EXPECT_GE(arena.reserved_bytes(), size_t{512} << 20);
  for (void* block : peak) arena.free(block);
  EXPECT_LE(arena.reserved_bytes(), size_t{256} << 20);
  arena.free(kept);
  EXPECT_EQ(arena.reserved_bytes(), 0u);
}

TEST(Arena, FailedAllocationIsNullAndLosesNothing) {
  Arena arena;
  void* kept = arena.allocate(64);
  EXPECT_EQ(arena.allocate(~size_t{0}), nullptr);
  EXPECT_EQ(arena.allocate(size_t{1} << 60), nullptr);
  arena.free(nullptr);
  void* next = arena.allocate(64);
  EXPECT_NE(next, nullptr);
  arena.free(next);
  arena.free(kept);
}

}  // namespace
}  // namespace kvik
