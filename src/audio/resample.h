#pragma once

#include <memory>

#include "audio/wav.h"

namespace kvik::audio {

// A sound resampled to another rate with a windowed sinc, low-pass filtered below half the lower rate to avoid aliasing. Computed when it
// is read; the original sound is shared.
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
  double cutoff_;  // as a fraction of half the original rate
};

// The sound itself if it already has the rate.
std::shared_ptr<const Sound> at_rate(std::shared_ptr<const Sound> sound, int rate);

}  // namespace kvik::audio
