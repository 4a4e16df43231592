#include <gmock/gmock.h>

#include "kvik/kvik.h"
#include "support/paths.h"

namespace kvik {
namespace {

// A tiny speech model without a tokenizer, with windows of one second.
class Transcribe : public testing::Test {
 protected:
  static Model speech() {
    static const testing_support::TemporaryFolder kFolder;
    static const Model kModel = [] {
      for (const auto& part : std::filesystem::directory_iterator(testing_support::fixtures() / "forms" / "speech"))
        std::filesystem::copy(part.path(), kFolder.path() / part.path().filename());
      kFolder.write("preprocessor_config.json",
                    R"({"feature_size": 8, "n_fft": 400, "hop_length": 800, "chunk_length": 1, "sampling_rate": 16000})");
      return Model::load(kFolder.path().string(), {.backend = BackendChoice::kReference});
    }();
    return kModel;
  }

  static std::vector<float> tone(size_t n) {
    std::vector<float> samples(n);
    for (size_t i = 0; i < n; ++i) samples[i] = static_cast<float>(static_cast<int>(i * 37 % 200) - 100) / 300.0f;
    return samples;
  }
};

TEST_F(Transcribe, TheBatchSizeDoesNotChangeTheResult) {
  const std::vector<float> samples = tone(40000);
  std::vector<TokenId> reported;
  TranscribeOptions options{.decoding = {.max_tokens = 5}};
  options.on_segment = [&](const Segment& window, int total) {
    reported.insert(reported.end(), window.ids.begin(), window.ids.end());
    EXPECT_EQ(total, 3);
  };
  const Transcription transcription = speech().transcribe(samples, 16000, options);
  ASSERT_EQ(transcription.segments.size(), 3u);
  EXPECT_EQ(transcription.segments[1].start_s, 1.0);
  EXPECT_EQ(transcription.segments[2].end_s, 2.5);
  EXPECT_EQ(transcription.ids, reported);
  EXPECT_FALSE(transcription.ids.empty());
  EXPECT_EQ(transcription.text, "");
  EXPECT_EQ(speech().transcribe(samples, 16000, {.decoding = {.max_tokens = 5}, .batch = 1}).ids, transcription.ids);
  const std::span<const float> second = std::span(samples).subspan(16000, 16000);
  EXPECT_EQ(speech().transcribe(second, 16000, {.decoding = {.max_tokens = 5}}).ids, transcription.segments[1].ids);
}

TEST_F(Transcribe, ReadsAnySampleRateAndEmptyAudio) {
  EXPECT_EQ(speech().transcribe(tone(44100), 44100, {.decoding = {.max_tokens = 5}}).segments.size(), 1u);
  EXPECT_TRUE(speech().transcribe({}, 16000).segments.empty());
}

TEST_F(Transcribe, CancellationKeepsTheSegmentsBefore) {
  bool enough = false;
  TranscribeOptions options{.decoding = {.max_tokens = 5}, .batch = 1};
  options.on_segment = [&](const Segment&, int) { enough = true; };
  options.decoding.cancelled = [&] { return enough; };
  const Transcription transcription = speech().transcribe(tone(40000), 16000, options);
  EXPECT_EQ(transcription.finish, Finish::kCancelled);
  EXPECT_EQ(transcription.segments.size(), 1u);
}

TEST_F(Transcribe, InvalidArgumentsAreErrors) {
  const auto refusal = [](const char* sentence) { return testing::ThrowsMessage<Error>(testing::HasSubstr(sentence)); };
  const std::vector<float> samples = tone(100);
  const Model fable = Model::load((testing_support::source_root() / "models" / "fable").string());
  EXPECT_THAT([&] { fable.transcribe(samples, 16000); }, refusal("cannot transcribe"));
  EXPECT_THAT([&] { speech().translate("a"); }, refusal("use transcribe"));
  EXPECT_THAT([&] { speech().transcribe(samples, 0); }, refusal("0 Hz"));
  EXPECT_THAT([&] { speech().transcribe(samples, 16000, {.language = "de"}); }, refusal("has only one"));
  EXPECT_THAT([&] { speech().transcribe(samples, 16000, {.batch = 0}); }, refusal("batch is 0"));
}

}  // namespace
}  // namespace kvik
