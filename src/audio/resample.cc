#include "audio/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace kvik::audio {
namespace {

constexpr int kZeroCrossings = 32;      // of the sinc per side: 90 % of the band passes unchanged
constexpr int kStepsPerCrossing = 512;  // linear interpolation between them: errors 100 dB below full scale
constexpr double kPassband = 0.95;
constexpr double kKaiserBeta = 9.0;  // about 90 dB of alias rejection

// The modified Bessel function of the first kind, order 0, for the Kaiser window.
double bessel_i0(double x) {
  double sum = 1, term = 1;
  for (int k = 1; term > sum * 1e-17; ++k) {
    term *= (x / (2 * k)) * (x / (2 * k));
    sum += term;
  }
  return sum;
}

// One side of the windowed sinc, oversampled; the same for every rate.
std::vector<float> make_kernel() {
  std::vector<float> kernel;
  constexpr size_t kSteps = size_t{kZeroCrossings} * kStepsPerCrossing;
  for (size_t i = 0; i <= kSteps; ++i) {
    const double x = static_cast<double>(i) / kStepsPerCrossing;  // in zero crossings
    const double at = x / kZeroCrossings;
    const double window = bessel_i0(kKaiserBeta * std::sqrt(std::max(0.0, 1 - at * at))) / bessel_i0(kKaiserBeta);
    const double sinc = i == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
    kernel.push_back(static_cast<float>(sinc * window));
  }
  kernel.push_back(0.0f);
  return kernel;
}

}  // namespace

Resampled::Resampled(std::shared_ptr<const Sound> sound, int rate) : sound_(std::move(sound)), rate_(rate) {
  const double from = sound_->rate(), to = rate;
  cutoff_ = kPassband * std::min(1.0, to / from);
  n_samples_ = (sound_->n_samples() * rate + sound_->rate() - 1) / sound_->rate();
}

void Resampled::read(int64_t first, std::span<float> target) const {
  constexpr int64_t kBlock = 4096;  // samples at a time, to bound the memory
  static const std::vector<float> kernel = make_kernel();
  const double ratio = static_cast<double>(sound_->rate()) / rate_;
  const double width = kZeroCrossings / cutoff_;     // of one side of the kernel, in samples of the sound
  const double steps = kStepsPerCrossing * cutoff_;  // of the kernel per sample of the sound
  std::vector<float> around;
  for (size_t done = 0; done < target.size(); done += kBlock) {
    const std::span<float> block = target.subspan(done, std::min<size_t>(kBlock, target.size() - done));
    const int64_t begin = first + static_cast<int64_t>(done);
    const auto lowest = static_cast<int64_t>(std::floor(static_cast<double>(begin) * ratio - width));
    const auto highest = static_cast<int64_t>(std::ceil(static_cast<double>(begin + static_cast<int64_t>(block.size())) * ratio + width));
    around.resize(static_cast<size_t>(highest - lowest + 1));
    sound_->read(lowest, around);
    for (size_t i = 0; i < block.size(); ++i) {
      const int64_t n = begin + static_cast<int64_t>(i);
      const double center = static_cast<double>(n) * ratio;
      double sum = 0;
      const auto from = static_cast<int64_t>(std::ceil(center - width)), to = static_cast<int64_t>(std::floor(center + width));
      for (int64_t k = from; k <= to; ++k) {
        const double place = std::fabs(static_cast<double>(k) - center) * steps;
        const auto at = std::min(static_cast<size_t>(place), kernel.size() - 2);
        const double share = place - static_cast<double>(at);
        sum += static_cast<double>(around[static_cast<size_t>(k - lowest)]) * (kernel[at] + share * (kernel[at + 1] - kernel[at]));
      }
      block[i] = n < 0 || n >= n_samples_ ? 0.0f : static_cast<float>(sum * cutoff_);
    }
  }
}

std::shared_ptr<const Sound> at_rate(std::shared_ptr<const Sound> sound, int rate) {
  if (sound->rate() == rate) return sound;
  return std::make_shared<const Resampled>(std::move(sound), rate);
}

}  // namespace kvik::audio
