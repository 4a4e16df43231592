#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "sample/rng.h"

namespace kvik::sample {
namespace {

TEST(Rng, IsThePublishedGenerator) {
  using testing::ElementsAre;
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_THAT(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}), ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(Rng, TheSameSeedGivesTheSameNumbersEverywhere) {
  Rng rng(42);
  EXPECT_EQ(rng.bits(), 8643895580192075859u);
  EXPECT_EQ(rng.uniform(), 0x1.4ee9b3f7f36c8p-2);
}

TEST(Rng, UniformNumbersStayBelowOneAndFillTheInterval) {
  Rng rng(7);
  double sum = 0, smallest = 1, largest = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = rng.uniform();
    ASSERT_TRUE(u >= 0.0 && u < 1.0);
    sum += u;
    smallest = std::min(smallest, u);
    largest = std::max(largest, u);
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  EXPECT_LT(smallest, 0.001);
  EXPECT_GT(largest, 0.999);
}

TEST(Rng, StreamsAndSeedsDoNotRepeatEachOther) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (uint64_t stream = 0; stream < 20; ++stream) {
      Rng rng(seed, stream);
      for (int i = 0; i < 20; ++i) seen.insert(rng.bits());
    }
  }
  EXPECT_EQ(seen.size(), 20u * 20u * 20u);
}

TEST(Rng, ARewoundStreamDrawsWhatItDrewBefore) {
  Rng rng(3, 9);
  for (int i = 0; i < 5; ++i) rng.bits();
  const uint64_t position = rng.position();
  const uint64_t sixth = rng.bits();
  rng.bits();
  rng.seek(position);
  EXPECT_EQ(rng.bits(), sixth);
}

TEST(Rng, ACopyContinuesIndependently) {
  Rng rng(3);
  rng.bits();
  Rng copy = rng;
  EXPECT_EQ(copy.bits(), rng.bits());
  copy.bits();
  EXPECT_EQ(rng.position(), 2u);
}

}  // namespace
}  // namespace kvik::sample
