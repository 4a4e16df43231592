#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "audio/mel.h"
#include "tensor/tensor.h"

namespace kvik::audio {

// What a speech encoder reads.
struct FeatureOptions {
  bool waveform = false;  // the samples themselves; otherwise log-mel features
  MelOptions mel;         // its rate is that of a waveform too
  int window_samples = 0;
  bool fills_window = true;  // a shorter sound is filled up with silence
  double padding_value = 0.0;
  bool normalise = false;  // to mean 0 and variance 1 before anything else
};

// From preprocessor_config.json (or the part "feature_extractor" of processor_config.json) of a folder and the shape that the encoder
// declares, without its batch axis; -1 where it says nothing. What neither says is 16 kHz, frames of 25 ms every 10 ms, windows of 30 s.
// Throws Error(kBadModel) where the two contradict each other, Error(kUnsupported) for features of another kind.
FeatureOptions read_feature_options(const std::filesystem::path& folder, const Dims& shape);

// From samples at the right rate to what the encoder reads. Immutable; any thread.
class FeatureExtractor {
 public:
  explicit FeatureExtractor(const FeatureOptions& options);

  int rate() const { return options_.mel.rate; }
  size_t window_samples() const { return static_cast<size_t>(options_.window_samples); }

  // Of one window: [n_mels, n_frames] or [n_samples]. Samples beyond the window are left out.
  Tensor extract(std::span<const float> samples) const;

 private:
  FeatureOptions options_;
  std::optional<LogMel> mel_;
};

}  // namespace kvik::audio
