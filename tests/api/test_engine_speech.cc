// Transcriptions of an engine: windows are streams of its loop, each with the bits it has alone.
#include <atomic>
#include <gmock/gmock.h>
#include <thread>

#include "kvik/engine.h"
#include "support/paths.h"

namespace kvik {
namespace {

using Ids = std::vector<TokenId>;

const Model& speech() {
  static const Model model = Model::load((testing_support::fixtures() / "zoo" / "small-speech").string());
  return model;
}

std::vector<Features> windows(size_t n, size_t seed) {
  std::vector<Features> all;
  for (size_t w = 0; w < n; ++w) {
    all.push_back({{8, 100}, std::vector<float>(800)});
    for (size_t i = 0; i < 800; ++i) all.back().values[i] = static_cast<float>((i * (37 + seed) + w * 11) % 101) / 50 - 1;
  }
  return all;
}

struct WantedTranscription {
  std::vector<Features> heard;
  TranscribeOptions options;
};

// Detected and named languages, greedy and with beams, with and without times.
std::vector<WantedTranscription> many_transcriptions(size_t n) {
  std::vector<WantedTranscription> wanted;
  for (size_t i = 0; i < n; ++i) {
    WantedTranscription one{windows(1 + i % 5, i), {.batch = 1 + static_cast<int>(i % 3)}};
    one.options.decoding.max_tokens = 6 + static_cast<int>(i % 4) * 4;
    if (i % 2 == 1) one.options.language = "de";
    if (i % 3 == 1) one.options.decoding.beams = 3;
    if (i % 5 == 3) one.options.decoding.beams = 1, one.options.decoding.sampling = {.temperature = 1.1, .seed = i};
    one.options.timestamps = i % 4 == 2;
    wanted.push_back(std::move(one));
  }
  return wanted;
}

void expect_same(const Transcription& found, const Transcription& expected, size_t which) {
  EXPECT_EQ(found.ids, expected.ids) << which;
  EXPECT_EQ(found.start_ids, expected.start_ids) << which;
  EXPECT_EQ(found.language, expected.language) << which;
  EXPECT_EQ(found.finish, expected.finish) << which;
  ASSERT_EQ(found.segments.size(), expected.segments.size()) << which;
  for (size_t s = 0; s < found.segments.size(); ++s) {
    EXPECT_EQ(found.segments[s].ids, expected.segments[s].ids) << which;
    EXPECT_EQ(found.segments[s].score, expected.segments[s].score) << which;
    EXPECT_EQ(found.segments[s].start_s, expected.segments[s].start_s) << which;
    EXPECT_EQ(found.segments[s].timed.size(), expected.segments[s].timed.size()) << which;
  }
}

TEST(EngineSpeech, EveryTranscriptionIsTheSameAsAlone) {
  const std::vector<WantedTranscription> wanted = many_transcriptions(14);
  Engine engine(speech(), {.max_sequences = 4});
  std::vector<TranscriptionTask> tasks;
  for (const WantedTranscription& one : wanted) tasks.push_back(engine.transcribe(one.heard, one.options));
  tasks[3].cancel();
  tasks[9].cancel();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Transcription found = tasks[i].get();
    if (!tasks[i].was_cancelled()) expect_same(found, speech().transcribe(wanted[i].heard, wanted[i].options), i);
  }
}

TEST(EngineSpeech, SamplesGiveTheSameTranscriptionAsAlone) {
  std::vector<float> samples(40000);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<float>(static_cast<int>(i * 37 % 200) - 100) / 300.0f;
  Engine engine(speech());
  for (const bool timestamps : {false, true}) {
    const TranscribeOptions options{.timestamps = timestamps, .decoding = {.max_tokens = 8}};
    const Transcription expected = speech().transcribe(samples, 16000, options);
    EXPECT_FALSE(expected.segments.empty());
    expect_same(engine.transcribe(Samples{samples, 16000}, options).get(), expected, 0);
  }
  EXPECT_TRUE(engine.transcribe(Samples{}).get().segments.empty());
}

TEST(EngineSpeech, SegmentsComeInOrderAndACancellationKeepsThoseBefore) {
  Engine engine(speech());
  std::atomic<int> n_heard = 0;
  std::vector<double> starts;
  TranscribeOptions options{.decoding = {.max_tokens = 20}, .batch = 3};
  options.on_segment = [&](const Segment& segment, int total) {
    EXPECT_EQ(total, 200);
    starts.push_back(segment.start_s);
    ++n_heard;
  };
  TranscriptionTask task = engine.transcribe(windows(200, 1), options);
  while (n_heard < 2) std::this_thread::yield();
  task.cancel();
  const Transcription found = task.get();
  EXPECT_EQ(found.finish, Finish::kCancelled);
  EXPECT_GE(found.segments.size(), 2u);
  EXPECT_LT(found.segments.size(), 200u);
  EXPECT_TRUE(std::ranges::is_sorted(starts));
}

TEST(EngineSpeech, BadArgumentsAreReportedAtOnce) {
  Engine engine(speech());
  EXPECT_THROW((void)engine.transcribe(Samples{{0.1f}, 0}), Error);
  EXPECT_THROW((void)engine.transcribe(windows(1, 0), {.language = "klingon"}), Error);
  EXPECT_THROW((void)engine.transcribe(std::filesystem::path("no-such-file.wav")), Error);
  EXPECT_THROW((void)engine.transcribe(windows(1, 0), {.batch = 0}), Error);
  EXPECT_THROW((void)engine.transcribe(std::vector<Features>{{{3, 5}, std::vector<float>(15)}}).get(), Error);  // the encoder's own error
}

}  // namespace
}  // namespace kvik
