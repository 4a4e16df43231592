// Features equal those of the reference extractor.
#include <cmath>
#include <gmock/gmock.h>

#include "audio/features.h"
#include "base/json.h"
#include "kvik/error.h"
#include "support/paths.h"

namespace kvik::audio {
namespace {

// The same as in tests/fixtures/make/audio.py.
std::vector<float> sound(int64_t n, int64_t quiet_from) {
  std::vector<float> samples;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t triangles = std::abs(i * 37 % 2000 - 1000) * 8 + std::abs(i * 211 % 1400 - 700) * (i / 64 % 9);
    const int64_t noise = (i * 1103515245 + 12345) % 2147483648 / 65536 % 512;
    samples.push_back(i < quiet_from ? static_cast<float>(static_cast<double>(triangles + noise - 8000) / 32768.0) : 0.0f);
  }
  return samples;
}

FeatureOptions options_for(const std::string& config, const Dims& shape) {
  const testing_support::TemporaryFolder folder;
  folder.write("preprocessor_config.json", config);
  return read_feature_options(folder.path(), shape);
}

TEST(Features, EqualThoseOfTheReferenceExtractor) {
  const Json known = read_json_file(testing_support::fixtures() / "audio" / "features.json");
  for (const Json& one : known["cases"]) {
    const FeatureExtractor extractor(options_for(one["config"].dump(), one["shape"].get<Dims>()));
    const Tensor features = extractor.extract(sound(one["n_samples"], one["quiet_from"]));
    ASSERT_EQ(features.dims(), one["shape"].get<Dims>()) << one["config"];
    const std::span<const float> values = features.data<float>();
    for (size_t i = 0; i < one["indices"].size(); ++i)
      EXPECT_NEAR(values[one["indices"][i].get<size_t>()], one["values"][i].get<float>(), 2e-4) << one["config"] << " element " << i;
    double sum = 0;
    for (const float value : values) sum += value;
    EXPECT_NEAR(sum / static_cast<double>(values.size()), one["mean"].get<double>(), 2e-5) << one["config"];
  }
}

TEST(Features, MissingOptionsComeFromTheShapeOfTheEncoder) {
  const testing_support::TemporaryFolder folder;
  const FeatureOptions options = read_feature_options(folder.path(), {128, 3000});
  EXPECT_EQ(options.mel.n_mels, 128);
  EXPECT_EQ(options.window_samples, 480000);
  EXPECT_EQ(options.mel.n_fft, 400);
  EXPECT_EQ(read_feature_options(folder.path(), {-1, -1}).window_samples, 480000);
}

TEST(Features, ProcessorConfigCanContainTheExtractor) {
  const testing_support::TemporaryFolder folder;
  folder.write("processor_config.json",
               R"({"feature_extractor": {"feature_size": 16, "n_fft": 400, "hop_length": 160, "chunk_length": 1}})");
  EXPECT_EQ(read_feature_options(folder.path(), {-1, -1}).mel.n_mels, 16);
}

TEST(Features, WaveformEncoderGetsSamplesRawOrNormalized) {
  const FeatureExtractor plain(options_for(R"({"sampling_rate": 8000})", {-1}));
  EXPECT_EQ(plain.rate(), 8000);
  EXPECT_EQ(plain.extract(sound(100, 100)).dims(), (Dims{100}));
  const FeatureExtractor normalizing(options_for(R"({"do_normalize": true})", {200}));
  const Tensor samples = normalizing.extract(sound(100, 100));
  EXPECT_EQ(samples.dims(), (Dims{200}));
  double sum = 0, squares = 0;
  for (const float value : samples.data<float>()) sum += value, squares += double{value} * value;
  EXPECT_NEAR(sum, 0, 1e-3);
  EXPECT_NEAR(squares / 100, 1, 1e-2);
}

TEST(Features, ContradictionsAndUnsupportedKindsAreRefused) {
  const auto refused = [](const std::string& config, const Dims& shape, const char* message) {
    EXPECT_THAT([&] { options_for(config, shape); }, testing::ThrowsMessage<Error>(testing::HasSubstr(message))) << config;
  };
  refused(R"({"feature_size": 80, "n_fft": 400})", {128, 3000}, "feature_size is 80; the encoder reads 128 features");
  refused(R"({"feature_size": 80, "chunk_length": 10})", {80, 3000}, "a window has 1000 frames");
  refused(R"({"feature_size": 80, "num_mel_bins": 80})", {80, -1}, "not log-mel features");
  refused(R"({"hop_length": 0})", {80, -1}, "'hop_length' is 0; expected a number from 1");
  refused(R"({"n_fft": "many"})", {80, -1}, "'n_fft' is \"many\"");
  refused(R"({"n_fft": 60000, "hop_length": 160, "chunk_length": 1})", {80, -1}, "fewer than half a frame");
  refused(R"([])", {80, -1}, "expected a JSON object");
  refused(R"({})", {3, 80, 3000}, "3 axes");
  refused(R"({})", {-1, 80}, "frames of 80 features");
}

}  // namespace
}  // namespace kvik::audio
