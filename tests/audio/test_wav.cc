// WAVE files of every supported encoding are read exactly; others are refused.
#include <bit>
#include <gmock/gmock.h>

#include "audio/sounds.h"
#include "audio/wav.h"
#include "kvik/error.h"
#include "support/paths.h"

namespace kvik::audio {
namespace {

std::vector<float> samples_of(const std::string& bytes) {
  const Wav wav(std::as_bytes(std::span(bytes)), nullptr, "sound.wav");
  std::vector<float> samples(static_cast<size_t>(wav.n_samples()));
  wav.read(0, samples);
  return samples;
}

std::string error_of(const std::string& bytes) {
  try {
    samples_of(bytes);
  } catch (const Error& e) { return e.what(); }
  return "";
}

TEST(Wav, EveryEncodingGivesTheWrittenSamples) {
  const std::vector<float> expected = {0.0f, 0.5f, -1.0f, -0.25f};
  for (const bool extensible : {false, true}) {
    EXPECT_EQ(samples_of(wav_file({1, 1, 16000, 8, extensible}, std::string_view("\x80\xC0\x00\x60", 4))), expected);
    for (const uint32_t bits : {16u, 24u, 32u}) {
      std::string data;
      for (const float value : expected)
        put(data, static_cast<uint64_t>(static_cast<int64_t>(value * static_cast<float>(int64_t{1} << (bits - 1)))), bits / 8);
      EXPECT_EQ(samples_of(wav_file({1, 1, 16000, bits, extensible}, data)), expected) << bits;
    }
    std::string floats, doubles;
    for (const float value : expected) put(floats, std::bit_cast<uint32_t>(value), 4);
    for (const float value : expected) put(doubles, std::bit_cast<uint64_t>(static_cast<double>(value)), 8);
    EXPECT_EQ(samples_of(wav_file({3, 1, 16000, 32, extensible}, floats)), expected);
    EXPECT_EQ(samples_of(wav_file({3, 1, 16000, 64, extensible}, doubles)), expected);
  }
}

TEST(Wav, ChannelsAreAveraged) {
  EXPECT_EQ(samples_of(wav_file({1, 2, 44100, 16}, pcm16({16384, 0, -16384, -16384}))), (std::vector<float>{0.25f, -0.5f}));
  EXPECT_EQ(samples_of(wav_file({1, 4, 8000, 16}, pcm16({16384, 0, 0, 0}))), (std::vector<float>{0.125f}));
}

TEST(Wav, OtherChunksAreSkippedAndUnknownSizeMeansToTheEnd) {
  const std::string data = pcm16({1, 2, 3});
  EXPECT_EQ(samples_of(riff(chunk("LIST", "odd") + format_chunk({}) + chunk("fact", "1234") + chunk("data", data))).size(), 3u);
  std::string streamed = riff(format_chunk({}));
  streamed += "data\xFF\xFF\xFF\xFF" + data;
  EXPECT_EQ(samples_of(streamed).size(), 3u);
}

TEST(Wav, ReadingOutsideTheSoundGivesSilence) {
  const std::string bytes = wav_file({}, pcm16({16384, 16384}));
  const Wav wav(std::as_bytes(std::span(bytes)), nullptr, "sound.wav");
  std::vector<float> around(4);
  wav.read(-1, around);
  EXPECT_EQ(around, (std::vector<float>{0, 0.5f, 0.5f, 0}));
}

TEST(Wav, NanAndInfinityBecomeSilence) {
  std::string floats;
  for (const uint32_t bits : {0x7FC00000u, 0x7F800000u, 0x3F000000u}) put(floats, bits, 4);
  EXPECT_EQ(samples_of(wav_file({3, 1, 16000, 32}, floats)), (std::vector<float>{0, 0, 0.5f}));
}

TEST(Wav, ErrorsNameTheFileAndTheReason) {
  const std::string data = pcm16({1, 2, 3, 4});
  std::string wrong_frame = wav_file({}, data);
  wrong_frame[12 + 8 + 12] = 3;
  std::string cut = wav_file({}, data);
  cut.resize(cut.size() - 3);
  const std::pair<std::string, std::string> faults[] = {
      {"", "the file is empty"},
      {"RIFF", "not a WAVE file"},
      {"ID3 an mp3 that was given another name", "not a WAVE file"},
      {cut, "truncated: its chunk 'data' should have 8 bytes and 5 are left"},
      {riff(format_chunk({})), "no data chunk"},
      {riff(chunk("data", data)), "before the format chunk"},
      {riff(chunk("fmt ", "short") + chunk("data", data)), "the format chunk has 5 bytes"},
      {wav_file({7, 1, 8000, 8}, data), "encoded as mu-law"},
      {wav_file({0x55, 1, 8000, 16}, data), "encoded as MP3"},
      {wav_file({1, 1, 16000, 12}, data), "12 bits; expected 8, 16, 24 or 32"},
      {wav_file({3, 1, 16000, 16}, data), "16 bits; expected 32 or 64 of a float"},
      {wav_file({1, 0, 16000, 16}, data), "no channels"},
      {wav_file({1, 1, 0, 16}, data), "the rate is 0"},
      {wav_file({1, 1, 4000000000, 16}, data), "the rate is 4000000000"},
      {wav_file({}, ""), "no samples"},
      {wrong_frame, "a frame has 3 bytes; 1 channels of 16 bits need 2"},
  };
  for (const auto& [bytes, message] : faults) {
    EXPECT_THAT(error_of(bytes), testing::HasSubstr(message));
    EXPECT_THAT(error_of(bytes), testing::StartsWith("sound.wav: "));
  }
}

TEST(Wav, TruncatedFilesAreNotReadPastTheirEnd) {
  const std::string whole = wav_file({1, 2, 16000, 24, true}, std::string(60, '\x11'));
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_NE(error_of(std::string(whole.data(), n)), "") << n;
  EXPECT_EQ(error_of(whole), "");
}

TEST(Wav, OpenReadsTheFormatAndRefusesAMissingFile) {
  const testing_support::TemporaryFolder folder;
  const auto path = folder.write("sound.wav", wav_file({1, 2, 44100, 16}, pcm16({1, 2, 3, 4})));
  const auto wav = Wav::open(path);
  EXPECT_EQ(wav->rate(), 44100);
  EXPECT_EQ(wav->n_channels(), 2);
  EXPECT_EQ(wav->n_samples(), 2);
  EXPECT_THROW(Wav::open(folder.path() / "nothing.wav"), Error);
}

}  // namespace
}  // namespace kvik::audio
