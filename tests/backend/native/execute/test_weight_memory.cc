#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

#include "backend/native/execute/cpu/weight_memory.h"

namespace kvik::native {
namespace {

TEST(WeightMemory, MatricesAreSideBySideInOneBuffer) {
  WeightMemory memory(int64_t{3} << 20);
  const WeightMemory::Room a = memory.take(100), b = memory.take(size_t{1} << 20), c = memory.take(64);
  EXPECT_EQ(a.buffer, b.buffer);
  EXPECT_EQ(a.buffer, c.buffer);
  EXPECT_EQ(b.data - a.data, 128);
  EXPECT_EQ(c.data - b.data, 1 << 20);
}

TEST(WeightMemory, WhatWasNotExpectedGetsABufferOfItsOwn) {
  WeightMemory memory(1000);
  const WeightMemory::Room a = memory.take(900), b = memory.take(5000), c = memory.take(5000);
  EXPECT_NE(a.buffer, b.buffer);
  EXPECT_NE(b.buffer, c.buffer);
  for (const WeightMemory::Room& room : {a, b, c}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(room.data) % 64, 0u);
    EXPECT_LE(room.data - room.buffer->data(), static_cast<ptrdiff_t>(room.buffer->size_bytes()));
  }
  std::memset(c.data, 1, 5000);
  EXPECT_TRUE(std::all_of(b.data, b.data + 5000, [](std::byte x) { return x == std::byte{0}; }));
}

// A model larger than a buffer takes several, each filled before the next is begun.
TEST(WeightMemory, BuffersAreBounded) {
  constexpr size_t kMatrix = size_t{24} << 20;
  WeightMemory memory(int64_t{1} << 40);
  const WeightMemory::Room a = memory.take(kMatrix), b = memory.take(kMatrix), c = memory.take(kMatrix);
  EXPECT_EQ(a.buffer, b.buffer);
  EXPECT_NE(b.buffer, c.buffer);
  EXPECT_EQ(a.buffer->size_bytes(), size_t{64} << 20);
}

}  // namespace
}  // namespace kvik::native
