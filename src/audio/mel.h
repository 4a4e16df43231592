#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "audio/fourier.h"

namespace kvik::audio {

struct MelOptions {
  int n_mels = 80;
  int n_fft = 400;  // samples per frame
  int hop_length = 160;
  int rate = 16000;

  // The last frame is dropped, as the reference extractor does; a frame of odd length lacks a sample at the end.
  int n_frames(int64_t n_samples) const { return static_cast<int>((n_samples - n_fft % 2) / hop_length); }
};

// Log-mel spectrogram: the logarithm of the power per frame in bands of equal width on Slaney's mel scale up to 8 kHz, clamped to 8
// powers of ten below the maximum, then scaled to about -1 to 1. Immutable; any thread.
class LogMel {
 public:
  explicit LogMel(const MelOptions& options);

  int n_frames(size_t n_samples) const { return options_.n_frames(static_cast<int64_t>(n_samples)); }

  // `result` is [n_mels, n_frames]. The samples are reflected at both ends; there must be more than half a frame of them.
  void compute(std::span<const float> samples, std::span<float> result) const;

 private:
  // The triangular filter of one band: its weights, starting at frequency bin `first`.
  struct Band {
    size_t first = 0;
    std::vector<double> weights;
  };

  MelOptions options_;
  Fourier fourier_;
  std::vector<double> window_;
  std::vector<Band> bands_;
};

}  // namespace kvik::audio
