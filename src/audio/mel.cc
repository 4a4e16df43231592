#include "audio/mel.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvik::audio {
namespace {

constexpr double kHighest = 8000.0;  // the last band ends here at any sample rate
constexpr double kFloor = 1e-10;
constexpr double kDynamicRange = 8.0;  // powers of ten

// Slaney's scale is linear up to 1 kHz and logarithmic above.
constexpr double kBendHertz = 1000.0, kBendMel = 15.0, kHertzPerMel = 200.0 / 3.0;
const double kLogStep = std::log(6.4) / 27.0;

double mel_of(double hertz) { return hertz < kBendHertz ? hertz / kHertzPerMel : kBendMel + std::log(hertz / kBendHertz) / kLogStep; }
double hertz_of(double mel) { return mel < kBendMel ? mel * kHertzPerMel : kBendHertz * std::exp(kLogStep * (mel - kBendMel)); }

}  // namespace

LogMel::LogMel(const MelOptions& options) : options_(options), fourier_(options.n_fft) {
  for (int i = 0; i < options.n_fft; ++i) window_.push_back(0.5 - 0.5 * std::cos(2 * std::numbers::pi * i / options.n_fft));
  std::vector<double> corners;
  for (int i = 0; i < options.n_mels + 2; ++i) corners.push_back(hertz_of(mel_of(kHighest) * i / (options.n_mels + 1)));
  const int n_bins = options.n_fft / 2 + 1;
  for (size_t b = 0; b + 2 < corners.size(); ++b) {
    const double low = corners[b], middle = corners[b + 1], high = corners[b + 2];
    Band band;
    const int highest = options.rate / 2;  // an integer, as in the reference
    for (int bin = 0; bin < n_bins; ++bin) {
      const double hertz = n_bins > 1 ? static_cast<double>(highest) * bin / (n_bins - 1) : 0.0;
      const double weight = std::max(0.0, std::min((hertz - low) / (middle - low), (high - hertz) / (high - middle)));
      if (weight == 0.0 && band.weights.empty()) continue;
      if (band.weights.empty()) band.first = static_cast<size_t>(bin);
      band.weights.push_back(weight * 2.0 / (high - low));  // each band has the same area
    }
    while (!band.weights.empty() && band.weights.back() == 0.0) band.weights.pop_back();
    bands_.push_back(std::move(band));
  }
}

void LogMel::compute(std::span<const float> samples, std::span<float> result) const {
  const auto n_fft = static_cast<size_t>(options_.n_fft);
  const auto n_samples = static_cast<int64_t>(samples.size());
  const auto n_frames = static_cast<size_t>(this->n_frames(samples.size()));
  std::vector<double> frame(n_fft), power(n_fft / 2 + 1);
  std::vector<std::complex<double>> spectrum(n_fft);
  double maximum = std::log10(kFloor);
  for (size_t f = 0; f < n_frames; ++f) {
    for (size_t i = 0; i < n_fft; ++i) {
      int64_t at = static_cast<int64_t>(f) * options_.hop_length + static_cast<int64_t>(i) - static_cast<int64_t>(n_fft / 2);
      if (at < 0) at = -at;
      if (at >= n_samples) at = 2 * (n_samples - 1) - at;
      frame[i] = static_cast<double>(samples[static_cast<size_t>(at)]) * window_[i];
    }
    fourier_.transform(frame, spectrum);
    for (size_t bin = 0; bin < power.size(); ++bin) power[bin] = std::norm(spectrum[bin]);
    for (size_t b = 0; b < bands_.size(); ++b) {
      double sum = 0;
      for (size_t i = 0; i < bands_[b].weights.size(); ++i) sum += bands_[b].weights[i] * power[bands_[b].first + i];
      const double value = std::log10(std::max(kFloor, sum));
      maximum = std::max(maximum, value);
      result[b * n_frames + f] = static_cast<float>(value);
    }
  }
  for (float& value : result) value = static_cast<float>((std::max(static_cast<double>(value), maximum - kDynamicRange) + 4.0) / 4.0);
}

}  // namespace kvik::audio
