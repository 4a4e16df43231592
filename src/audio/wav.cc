#include "audio/wav.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <optional>

#include "base/mapped_file.h"
#include "kvik/error.h"

namespace kvik::audio {
namespace {

constexpr uint32_t kUnknownSize = 0xFFFFFFFF;  // written by programs that cannot seek: up to the end of the file

uint32_t little(std::span<const std::byte> bytes, size_t at, size_t n) {
  uint32_t value = 0;
  for (size_t i = 0; i < n; ++i) value |= std::to_integer<uint32_t>(bytes[at + i]) << (8 * i);
  return value;
}

bool has_tag(std::span<const std::byte> bytes, size_t at, const char* tag) { return std::memcmp(bytes.data() + at, tag, 4) == 0; }

// Reads little-endian bytes on any machine.
template <class Float, class Bits>
Float float_at(const std::byte* at) {
  Bits bits = 0;
  for (size_t i = 0; i < sizeof(Bits); ++i) bits |= std::to_integer<Bits>(at[i]) << (8 * i);
  Float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::string encoding_name(uint32_t code) {
  switch (code) {
    case 2: return "ADPCM";
    case 6: return "A-law";
    case 7: return "mu-law";
    case 0x11: return "IMA ADPCM";
    case 0x55: return "MP3";
    default: return fmt::format("format {:#x}", code);
  }
}

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw Error(Code::kBadArgument, fmt::format("{}: {}", name, what));
}

}  // namespace

std::shared_ptr<const Wav> Wav::open(const std::filesystem::path& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  return std::make_shared<const Wav>(file->bytes(), file, path.string());
}

Wav::Format Wav::read_format(std::span<const std::byte> chunk, const std::string& name) {
  constexpr size_t kPlainBytes = 16, kExtensibleBytes = 40;
  if (chunk.size() < kPlainBytes)
    refuse(name, fmt::format("the format chunk has {} bytes; expected at least {}", chunk.size(), kPlainBytes));
  uint32_t code = little(chunk, 0, 2);
  constexpr uint32_t kExtensible = 0xFFFE;
  if (code == kExtensible) {
    if (chunk.size() < kExtensibleBytes)
      refuse(name, fmt::format("the extensible format chunk has {} bytes; expected {}", chunk.size(), kExtensibleBytes));
    code = little(chunk, 24, 2);  // the first bytes of the sub-format
  }
  Format format;
  format.n_channels = static_cast<int>(little(chunk, 2, 2));
  const uint32_t rate = little(chunk, 4, 4), frame_bytes = little(chunk, 12, 2), bits = little(chunk, 14, 2);
  if (code != 1 && code != 3)
    throw Error(Code::kUnsupported,
                fmt::format("{}: it is encoded as {}; expected PCM or float; convert it first", name, encoding_name(code)));
  format.encoding = code == 1 ? Encoding::kPcm : Encoding::kFloat;
  const bool known = code == 1 ? bits == 8 || bits == 16 || bits == 24 || bits == 32 : bits == 32 || bits == 64;
  if (!known)
    refuse(name, fmt::format("the samples have {} bits; expected {}", bits, code == 1 ? "8, 16, 24 or 32" : "32 or 64 of a float"));
  if (format.n_channels == 0) refuse(name, "it has no channels; expected at least one");
  if (rate < kLowestRate || rate > kHighestRate)
    refuse(name, fmt::format("the rate is {} samples per second; expected {} to {}", rate, kLowestRate, kHighestRate));
  format.rate = static_cast<int>(rate);
  format.sample_bytes = static_cast<int>(bits / 8);
  const uint32_t expected = static_cast<uint32_t>(format.n_channels) * bits / 8;
  if (frame_bytes != expected)
    refuse(name, fmt::format("a frame has {} bytes; {} channels of {} bits need {}", frame_bytes, format.n_channels, bits, expected));
  return format;
}

Wav::Wav(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& name) : owner_(std::move(owner)) {
  constexpr size_t kHeaderBytes = 12, kChunkHeaderBytes = 8;
  if (bytes.empty()) refuse(name, "the file is empty; expected a WAVE file");
  if (bytes.size() < kHeaderBytes || !has_tag(bytes, 0, "RIFF") || !has_tag(bytes, 8, "WAVE"))
    refuse(name, "not a WAVE file: it does not begin with RIFF and WAVE; convert it first");

  std::optional<Format> format;
  for (size_t at = kHeaderBytes; at + kChunkHeaderBytes <= bytes.size();) {
    const uint32_t declared = little(bytes, at + 4, 4);
    const size_t begin = at + kChunkHeaderBytes, left = bytes.size() - begin;
    const bool is_data = has_tag(bytes, at, "data");
    const size_t size = is_data && declared == kUnknownSize ? left : declared;
    if (size > left)
      refuse(name, fmt::format("the file is truncated: its chunk '{}' should have {} bytes and {} are left",
                               is_data                      ? "data"
                               : has_tag(bytes, at, "fmt ") ? "fmt"
                                                            : "other",
                               size, left));
    if (has_tag(bytes, at, "fmt ")) format = read_format(bytes.subspan(begin, size), name);
    if (is_data) {
      if (!format) refuse(name, "the samples come before the format chunk, or there is none");
      format_ = *format;
      data_ = bytes.subspan(begin, size);
      n_frames_ = static_cast<int64_t>(size) / (int64_t{format_.n_channels} * format_.sample_bytes);
      if (n_frames_ == 0) refuse(name, "it has no samples");
      return;
    }
    at = begin + size + (size & 1);  // chunks begin at even offsets
  }
  refuse(name, "it has no data chunk, so it has no samples");
}

float Wav::sample(const std::byte* at) const {
  if (format_.encoding == Encoding::kFloat) {
    const double value = format_.sample_bytes == 4 ? float_at<float, uint32_t>(at) : float_at<double, uint64_t>(at);
    return std::isfinite(value) ? static_cast<float>(std::clamp(value, -1e6, 1e6)) : 0.0f;
  }
  if (format_.sample_bytes == 1) return (static_cast<float>(std::to_integer<int>(*at)) - 128.0f) / 128.0f;  // the only unsigned one
  // The bytes fill an integer from the top, which makes its sign that of the sample.
  uint32_t bits = 0;
  for (int i = 0; i < format_.sample_bytes; ++i) bits |= std::to_integer<uint32_t>(at[i]) << (32 - 8 * (format_.sample_bytes - i));
  return static_cast<float>(static_cast<int32_t>(bits)) / 2147483648.0f;
}

void Wav::read(int64_t first, std::span<float> target) const {
  const auto frame_bytes = static_cast<size_t>(format_.n_channels) * static_cast<size_t>(format_.sample_bytes);
  for (size_t i = 0; i < target.size(); ++i) {
    const int64_t frame = first + static_cast<int64_t>(i);
    target[i] = 0.0f;
    if (frame < 0 || frame >= n_frames_) continue;
    const std::byte* at = data_.data() + static_cast<size_t>(frame) * frame_bytes;
    float sum = 0.0f;
    for (int c = 0; c < format_.n_channels; ++c, at += format_.sample_bytes) sum += sample(at);
    target[i] = sum / static_cast<float>(format_.n_channels);
  }
}

}  // namespace kvik::audio
