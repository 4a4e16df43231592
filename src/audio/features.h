#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "audio/mel.h"
#include "tensor/tensor.h"

namespace kvik::audio {

// The input of a speech encoder.
struct FeatureOptions {
  bool waveform = false;  // raw samples; otherwise log-mel features
  MelOptions mel;         // mel.rate is the sample rate of a waveform too
  int window_samples = 0;
  bool pads_window = true;  // pad shorter sounds with silence
  double padding_value = 0.0;
  bool normalize = false;  // samples to mean 0 and variance 1 first
};

// From preprocessor_config.json (or "feature_extractor" in processor_config.json) of a folder and the input shape that the encoder
// declares, without the batch axis; -1 for an unknown dimension. Defaults: 16 kHz, frames of 25 ms every 10 ms, windows of 30 s.
// Throws Error(kBadModel) if the two contradict each other, Error(kUnsupported) for other kinds of features.
FeatureOptions read_feature_options(const std::filesystem::path& folder, const Dims& shape);

// Computes encoder inputs from samples at rate(). Immutable; any thread.
class FeatureExtractor {
 public:
  explicit FeatureExtractor(const FeatureOptions& options);

  int rate() const { return options_.mel.rate; }
  size_t window_samples() const { return static_cast<size_t>(options_.window_samples); }
  double window_s() const { return static_cast<double>(options_.window_samples) / options_.mel.rate; }

  // Features of one window: [n_mels, n_frames] or [n_samples]. Samples past the window are ignored.
  Tensor extract(std::span<const float> samples) const;

 private:
  FeatureOptions options_;
  std::optional<LogMel> mel_;
};

}  // namespace kvik::audio
