#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvik::text {

// The printable character for each byte in byte-level vocabularies.
class ByteAlphabet {
 public:
  static const ByteAlphabet& instance();

  std::string_view character(uint8_t byte) const { return {characters_[byte].data(), sizes_[byte]}; }
  void append_characters(std::string& out, std::string_view bytes) const;
  // The bytes of `text` (valid UTF-8); false, and nothing appended, if a character is not in the alphabet.
  bool append_bytes(std::string& out, std::string_view text) const;

 private:
  ByteAlphabet();

  static constexpr int16_t kNoByte = -1;
  std::array<std::array<char, 2>, 256> characters_;
  std::array<uint8_t, 256> sizes_;
  std::array<int16_t, 512> bytes_;  // by code point
};

}  // namespace kvik::text
