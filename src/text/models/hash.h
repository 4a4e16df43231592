#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace kvik::text {

__extension__ using Wide = unsigned __int128;

inline uint64_t mix(uint64_t a, uint64_t b) {
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Fast for pieces of a few bytes. Not resistant to collision attacks: tables that use it are bounded by the size of their file.
inline uint64_t hash_bytes(const char* p, size_t n) {
  constexpr uint64_t kA = 0x9E3779B97F4A7C15u;
  constexpr uint64_t kB = 0xC2B2AE3D27D4EB4Fu;
  uint64_t hash = kB ^ (n * kA);
  while (n > 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    hash = mix(hash ^ word, kA);
    p += 8;
    n -= 8;
  }
  uint64_t tail = 0;
  if (n >= 4) {  // two overlapping reads cover 4 to 8 bytes
    uint32_t low, high;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + n - 4, 4);
    tail = static_cast<uint64_t>(high) << 32 | low;
  } else if (n > 0) {
    tail = static_cast<uint64_t>(static_cast<uint8_t>(p[0])) << 16 | static_cast<uint64_t>(static_cast<uint8_t>(p[n / 2])) << 8 |
           static_cast<uint8_t>(p[n - 1]);
  }
  return mix(hash ^ tail, kB);
}

inline uint64_t hash_bytes(std::string_view bytes) { return hash_bytes(bytes.data(), bytes.size()); }

}  // namespace kvik::text
