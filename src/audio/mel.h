#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "audio/fourier.h"

namespace kvik::audio {

struct MelOptions {
  int n_mels = 80;
  int n_fft = 400;  // samples of a frame
  int hop_length = 160;
  int rate = 16000;

  // The last one is left out, as the reference extractor does; a frame of odd length lacks a sample at the end.
  int n_frames(int64_t n_samples) const { return static_cast<int>((n_samples - n_fft % 2) / hop_length); }
};

// The logarithm of the power in bands of equal width on Slaney's mel scale, up to 8 kHz, frame by frame; no more than 8 powers of ten
// below the loudest, then moved to about -1 to 1. Immutable; any thread.
class LogMel {
 public:
  explicit LogMel(const MelOptions& options);

  // How many frames so many samples have.
  int n_frames(size_t n_samples) const { return options_.n_frames(static_cast<int64_t>(n_samples)); }

  // `result` is [n_mels, n_frames]. The sound is mirrored at its ends; it must be longer than half a frame.
  void compute(std::span<const float> samples, std::span<float> result) const;

 private:
  // The triangle of one band: its weights, from the frequency `first` on.
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
