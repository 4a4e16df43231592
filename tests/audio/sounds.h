#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvik::audio {

inline void put(std::string& bytes, uint64_t value, size_t n) {
  for (size_t i = 0; i < n; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
}

inline std::string chunk(std::string_view tag, std::string_view body) {
  std::string bytes(tag);
  put(bytes, body.size(), 4);
  bytes += body;
  if (body.size() % 2 == 1) bytes.push_back('\0');
  return bytes;
}

struct WavFormat {
  uint32_t code = 1;  // 1 PCM, 3 float
  uint32_t n_channels = 1;
  uint32_t rate = 16000;
  uint32_t bits = 16;
  bool extensible = false;
};

inline std::string format_chunk(const WavFormat& format) {
  std::string body;
  put(body, format.extensible ? 0xFFFE : format.code, 2);
  put(body, format.n_channels, 2);
  put(body, format.rate, 4);
  put(body, format.rate * format.n_channels * format.bits / 8, 4);
  put(body, format.n_channels * format.bits / 8, 2);
  put(body, format.bits, 2);
  if (format.extensible) {
    put(body, 22, 2);
    put(body, format.bits, 2);
    put(body, 0, 4);
    put(body, format.code, 2);
    body += std::string("\x00\x00\x00\x00\x10\x00\x80\x00\x00\xAA\x00\x38\x9B\x71", 14);
  }
  return chunk("fmt ", body);
}

inline std::string riff(std::string_view chunks) { return chunk("RIFF", "WAVE" + std::string(chunks)); }

inline std::string wav_file(const WavFormat& format, std::string_view data) { return riff(format_chunk(format) + chunk("data", data)); }

// Samples of 16 bits.
inline std::string pcm16(const std::vector<int>& values) {
  std::string data;
  for (const int value : values) put(data, static_cast<uint64_t>(static_cast<int64_t>(value)), 2);
  return data;
}

}  // namespace kvik::audio
