#pragma once

#include <memory>

#include "audio/wav.h"

namespace kvik::audio {

// A sound at another rate: a windowed sinc around every new sample, cut off below the half of the lower rate, so that nothing is
// mirrored into what can be heard. Made when it is read; the sound itself is shared.
class Resampled final : public Sound {
 public:
  Resampled(std::shared_ptr<const Sound> sound, int rate);

  int rate() const override { return rate_; }
  int64_t n_samples() const override { return n_samples_; }
  void read(int64_t first, std::span<float> target) const override;

 private:
  std::shared_ptr<const Sound> sound_;
  int rate_;
  int64_t n_samples_;
  double cutoff_;  // as a share of the sound's own half rate
};

// The sound itself where it has the rate already.
std::shared_ptr<const Sound> at_rate(std::shared_ptr<const Sound> sound, int rate);

}  // namespace kvik::audio
