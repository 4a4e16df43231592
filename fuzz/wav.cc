// Any bytes as a WAVE file or a NumPy array: finite samples at any rate, or an Error.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "audio/features.h"
#include "audio/resample.h"
#include "kvik/error.h"
#include "tensor/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    if (std::string_view(reinterpret_cast<const char*>(data), size).starts_with("\x93NUMPY")) {
      kvik::read_npy(bytes, "fuzz.npy");
      return 0;
    }
    const auto wav = std::make_shared<const kvik::audio::Wav>(bytes, nullptr, "fuzz.wav");
    const auto sound = kvik::audio::at_rate(wav, 16000);
    std::vector<float> samples(512);
    for (const int64_t first : {int64_t{-7}, int64_t{0}, sound->n_samples() - 100}) {
      sound->read(first, samples);
      for (const float value : samples) {
        if (!std::isfinite(value)) std::abort();
      }
    }
    static const kvik::audio::FeatureExtractor extractor({.mel = {.n_mels = 8}, .window_samples = 1600});
    const kvik::Tensor features = extractor.extract(samples);
    for (const float value : features.data<float>()) {
      if (!std::isfinite(value)) std::abort();
    }
  } catch (const kvik::Error&) {  // a correct result
  }
  return 0;
}
