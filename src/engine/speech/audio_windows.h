#pragma once

#include <memory>
#include <span>

#include "audio/features.h"
#include "audio/wav.h"
#include "tensor/tensor.h"

namespace kvik::engine {

// The input of a speech encoder, window by window.
class AudioWindows {
 public:
  virtual ~AudioWindows() = default;
  virtual int count() const = 0;
  virtual Tensor features(int window) const = 0;
  virtual double start_s(int) const { return 0; }
  virtual double end_s(int) const { return 0; }

  // Windows that begin at any time. A duration of 0: windows cannot be moved.
  virtual double duration_s() const { return 0; }
  virtual Tensor features_from(double /*start_s*/) const { return {}; }
};

// Windows of a recording, without overlap; the last one is padded with silence. Both arguments must outlive the result.
std::unique_ptr<AudioWindows> windows_of(const audio::Sound& sound, const audio::FeatureExtractor& extractor);
// Precomputed features, one tensor per window. They must outlive the result.
std::unique_ptr<AudioWindows> windows_of(std::span<const Tensor> features);

}  // namespace kvik::engine
