#pragma once

#include <memory>
#include <span>

#include "audio/features.h"
#include "audio/wav.h"
#include "tensor/tensor.h"

namespace kvik::engine {

// What a speech encoder reads, one window after another.
class AudioWindows {
 public:
  virtual ~AudioWindows() = default;
  virtual int count() const = 0;
  virtual Tensor features(int window) const = 0;
  virtual double start_s(int) const { return 0; }
  virtual double end_s(int) const { return 0; }

  // A window that begins anywhere. 0 seconds: windows cannot be moved.
  virtual double duration_s() const { return 0; }
  virtual Tensor features_from(double /*start_s*/) const { return {}; }
};

// Windows of a recording follow each other without overlap; the last one is padded with silence. Both must outlive it.
std::unique_ptr<AudioWindows> windows_of(const audio::Sound& sound, const audio::FeatureExtractor& extractor);
// Features that were computed elsewhere, one tensor per window. They must outlive it.
std::unique_ptr<AudioWindows> windows_of(std::span<const Tensor> features);

}  // namespace kvik::engine
