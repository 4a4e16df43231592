#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace kvik::audio {

// Plausible sample rates in samples per second.
inline constexpr int kLowestRate = 1000;
inline constexpr int kHighestRate = 768'000;

// Samples of one channel at one rate, read in any order. Immutable; any thread.
class Sound {
 public:
  virtual ~Sound() = default;
  virtual int rate() const = 0;  // samples per second
  virtual int64_t n_samples() const = 0;
  // Samples [first, first + target.size()); silence outside the sound.
  virtual void read(int64_t first, std::span<float> target) const = 0;
};

// A RIFF/WAVE file: PCM of 8, 16, 24 or 32 bits, float of 32 or 64, plain or WAVE_FORMAT_EXTENSIBLE. The channels are
// averaged; full scale is 1. Samples are decoded when they are read, so that hours of sound take no memory.
class Wav final : public Sound {
 public:
  // Throws Error: kIo if the file cannot be read, kBadArgument if it is not a valid WAVE file, kUnsupported for another encoding.
  static std::shared_ptr<const Wav> open(const std::filesystem::path& path);
  // `owner` keeps `bytes` alive; `name` begins every message.
  Wav(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& name);

  int rate() const override { return format_.rate; }
  int n_channels() const { return format_.n_channels; }
  int64_t n_samples() const override { return n_frames_; }
  void read(int64_t first, std::span<float> target) const override;

 private:
  enum class Encoding { kPcm, kFloat };
  struct Format {
    Encoding encoding = Encoding::kPcm;
    int n_channels = 0;
    int rate = 0;
    int sample_bytes = 0;
  };
  static Format read_format(std::span<const std::byte> chunk, const std::string& name);
  float sample(const std::byte* at) const;

  Format format_;
  std::span<const std::byte> data_;
  int64_t n_frames_ = 0;
  std::shared_ptr<const void> owner_;
};

}  // namespace kvik::audio
