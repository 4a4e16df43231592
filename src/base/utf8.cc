#include "base/utf8.h"

#include <cstring>

namespace kvik::utf8 {
namespace {

constexpr uint64_t kHighBits = 0x8080808080808080u;

struct Lead {
  uint8_t size;       // bytes of the whole character; 0 if no character begins with this byte
  uint8_t low, high;  // range of the second byte
  uint8_t bits;       // mask of the payload in the lead
};

Lead lead_of(uint8_t byte) {
  if (byte < 0xC2) return {0, 0, 0, 0};  // a continuation byte, or an overlong encoding
  if (byte < 0xE0) return {2, 0x80, 0xBF, 0x1F};
  if (byte == 0xE0) return {3, 0xA0, 0xBF, 0x0F};
  if (byte == 0xED) return {3, 0x80, 0x9F, 0x0F};  // no surrogates
  if (byte < 0xF0) return {3, 0x80, 0xBF, 0x0F};
  if (byte == 0xF0) return {4, 0x90, 0xBF, 0x07};
  if (byte < 0xF4) return {4, 0x80, 0xBF, 0x07};
  if (byte == 0xF4) return {4, 0x80, 0x8F, 0x07};  // up to U+10FFFF
  return {0, 0, 0, 0};
}

}  // namespace

Step step(std::string_view bytes) {
  const auto first = static_cast<uint8_t>(bytes[0]);
  if (first < 0x80) return {first, 1, true, false};
  const Lead lead = lead_of(first);
  if (lead.size == 0) return {0xFFFD, 1, false, false};
  uint32_t code_point = first & lead.bits;
  for (uint8_t i = 1; i < lead.size; ++i) {
    if (i == bytes.size()) return {0xFFFD, i, false, true};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const bool fits = i == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xC0) == 0x80;
    if (!fits) return {0xFFFD, i, false, false};
    code_point = code_point << 6 | (byte & 0x3Fu);
  }
  return {code_point, lead.size, true, false};
}

size_t ascii_prefix_bytes(std::string_view bytes) {
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    if ((word & kHighBits) != 0) break;
  }
  while (at < bytes.size() && static_cast<uint8_t>(bytes[at]) < 0x80) ++at;
  return at;
}

size_t valid_prefix_bytes(std::string_view bytes) {
  size_t at = 0;
  while (true) {
    at += ascii_prefix_bytes(bytes.substr(at));
    if (at == bytes.size()) return at;
    const Step s = step(bytes.substr(at));
    if (!s.valid) return at;
    at += s.size;
  }
}

void append_replaced(std::string& out, std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t valid = valid_prefix_bytes(bytes);
    out.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    out.append(kReplacement);
    bytes.remove_prefix(step(bytes).size);
  }
}

std::string replaced(std::string_view bytes) {
  std::string out;
  append_replaced(out, bytes);
  return out;
}

}  // namespace kvik::utf8
