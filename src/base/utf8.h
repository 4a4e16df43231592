#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvik::utf8 {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// One decoding step through bytes that may be invalid.
struct Step {
  char32_t code_point;  // U+FFFD unless valid
  uint8_t size;         // bytes of the character, or of the longest prefix of one (at least 1)
  bool valid;
  bool incomplete;  // invalid only because the bytes end here
};

// `bytes` may not be empty.
Step step(std::string_view bytes);

// The character at `text`, which must be valid UTF-8; moves `text` past it.
inline char32_t next(const char*& text) {
  const auto* p = reinterpret_cast<const uint8_t*>(text);
  if (p[0] < 0x80) {
    text += 1;
    return p[0];
  }
  if (p[0] < 0xE0) {
    text += 2;
    return static_cast<char32_t>((p[0] & 0x1F) << 6 | (p[1] & 0x3F));
  }
  if (p[0] < 0xF0) {
    text += 3;
    return static_cast<char32_t>((p[0] & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F));
  }
  text += 4;
  return static_cast<char32_t>((p[0] & 0x07) << 18 | (p[1] & 0x3F) << 12 | (p[2] & 0x3F) << 6 | (p[3] & 0x3F));
}

// Bytes of the character whose first byte is `lead`, in valid UTF-8.
inline size_t size_of(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// A byte at which a character begins, in valid UTF-8.
inline bool begins_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

inline void append(std::string& out, char32_t code_point) {
  const auto c = static_cast<uint32_t>(code_point);
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

// Length of the longest valid prefix.
size_t valid_prefix_bytes(std::string_view bytes);
inline bool is_valid(std::string_view bytes) { return valid_prefix_bytes(bytes) == bytes.size(); }
// Length of the longest ASCII prefix.
size_t ascii_prefix_bytes(std::string_view bytes);
inline bool is_ascii(std::string_view bytes) { return ascii_prefix_bytes(bytes) == bytes.size(); }

// Replaces every maximal invalid part with one U+FFFD, as Python's errors="replace" does.
void append_replaced(std::string& out, std::string_view bytes);
std::string replaced(std::string_view bytes);

}  // namespace kvik::utf8
