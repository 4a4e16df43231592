#include "engine/speech/audio_windows.h"

#include <algorithm>
#include <cmath>

namespace kvik::engine {
namespace {

class SoundWindows final : public AudioWindows {
 public:
  SoundWindows(const audio::Sound& sound, const audio::FeatureExtractor& extractor)
      : sound_(sound), extractor_(extractor), n_window_(static_cast<int64_t>(extractor.window_samples())) {}

  int count() const override { return static_cast<int>((sound_.n_samples() + n_window_ - 1) / n_window_); }
  Tensor features(int window) const override {
    std::vector<float> samples(static_cast<size_t>(last_sample(window) - first_sample(window)));
    sound_.read(first_sample(window), samples);
    return extractor_.extract(samples);
  }
  double start_s(int window) const override { return static_cast<double>(first_sample(window)) / sound_.rate(); }
  double end_s(int window) const override { return static_cast<double>(last_sample(window)) / sound_.rate(); }
  double duration_s() const override { return static_cast<double>(sound_.n_samples()) / sound_.rate(); }
  Tensor features_from(double start_s) const override {
    const int64_t first = std::llround(start_s * sound_.rate());
    std::vector<float> samples(static_cast<size_t>(std::clamp<int64_t>(sound_.n_samples() - first, 0, n_window_)));
    sound_.read(first, samples);
    return extractor_.extract(samples);
  }

 private:
  int64_t first_sample(int window) const { return window * n_window_; }
  int64_t last_sample(int window) const { return std::min((window + 1) * n_window_, sound_.n_samples()); }

  const audio::Sound& sound_;
  const audio::FeatureExtractor& extractor_;
  int64_t n_window_;
};

class FeatureWindows final : public AudioWindows {
 public:
  explicit FeatureWindows(std::span<const Tensor> features) : features_(features) {}
  int count() const override { return static_cast<int>(features_.size()); }
  Tensor features(int window) const override { return features_[static_cast<size_t>(window)]; }

 private:
  std::span<const Tensor> features_;
};

}  // namespace

std::unique_ptr<AudioWindows> windows_of(const audio::Sound& sound, const audio::FeatureExtractor& extractor) {
  return std::make_unique<SoundWindows>(sound, extractor);
}

std::unique_ptr<AudioWindows> windows_of(std::span<const Tensor> features) { return std::make_unique<FeatureWindows>(features); }

}  // namespace kvik::engine
