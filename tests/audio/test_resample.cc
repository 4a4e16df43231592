// Resampling keeps frequencies that both rates can represent and removes the others.
#include <cmath>
#include <gtest/gtest.h>
#include <numbers>

#include "audio/resample.h"

namespace kvik::audio {
namespace {

class Tone final : public Sound {
 public:
  Tone(double hertz, int rate, int64_t n) : hertz_(hertz), rate_(rate), n_(n) {}
  int rate() const override { return rate_; }
  int64_t n_samples() const override { return n_; }
  void read(int64_t first, std::span<float> target) const override {
    for (size_t i = 0; i < target.size(); ++i) {
      const int64_t at = first + static_cast<int64_t>(i);
      target[i] = at < 0 || at >= n_ ? 0.0f : value(static_cast<double>(at) / rate_);
    }
  }
  float value(double seconds) const { return static_cast<float>(std::sin(2 * std::numbers::pi * hertz_ * seconds)); }

 private:
  double hertz_;
  int rate_;
  int64_t n_;
};

std::vector<float> all(const Sound& sound) {
  std::vector<float> samples(static_cast<size_t>(sound.n_samples()));
  sound.read(0, samples);
  return samples;
}

TEST(Resampled, ToneIsPreservedForAnyPairOfRates) {
  for (const int from : {8000, 11025, 16000, 22050, 44100, 48000, 96000, 15999}) {
    const auto tone = std::make_shared<const Tone>(440.0, from, from);
    const Resampled resampled(tone, 16000);
    EXPECT_EQ(resampled.n_samples(), 16000) << from;
    const std::vector<float> samples = all(resampled);
    double worst = 0;
    for (size_t i = 1000; i < 15000; ++i)
      worst = std::max(worst, std::fabs(double{samples[i]} - tone->value(static_cast<double>(i) / 16000)));
    EXPECT_LT(worst, 2e-4) << from;
  }
}

TEST(Resampled, FrequenciesAboveHalfTheLowerRateAreRemoved) {
  const Resampled resampled(std::make_shared<const Tone>(9000.0, 48000, 48000), 16000);
  const std::vector<float> samples = all(resampled);
  for (size_t i = 1000; i < 15000; ++i) ASSERT_LT(std::fabs(samples[i]), 2e-3) << i;
}

TEST(Resampled, ReadingInPiecesGivesTheSameSamples) {
  const Resampled resampled(std::make_shared<const Tone>(700.0, 44100, 44100), 16000);
  const std::vector<float> whole = all(resampled);
  std::vector<float> piece(777);
  for (const int64_t first : {0, 1, 5000, 15900}) {
    resampled.read(first, piece);
    for (size_t i = 0; i < piece.size(); ++i) {
      const size_t at = static_cast<size_t>(first) + i;
      ASSERT_EQ(piece[i], at < whole.size() ? whole[at] : 0.0f) << at;
    }
  }
}

TEST(Resampled, SoundWithTheRightRateIsReturnedAsItIs) {
  const auto tone = std::make_shared<const Tone>(440.0, 16000, 100);
  EXPECT_EQ(at_rate(tone, 16000), tone);
  EXPECT_EQ(at_rate(tone, 8000)->rate(), 8000);
}

}  // namespace
}  // namespace kvik::audio
