#include "text/unicode/byte_alphabet.h"

#include "base/utf8.h"

namespace kvik::text {

const ByteAlphabet& ByteAlphabet::instance() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(kNoByte);
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const uint32_t c = printable ? byte : next++;
    std::string character;
    utf8::append(character, c);
    sizes_[byte] = static_cast<uint8_t>(character.size());
    characters_[byte] = {character[0], character.size() > 1 ? character[1] : '\0'};
    bytes_[c] = static_cast<int16_t>(byte);
  }
}

void ByteAlphabet::append_characters(std::string& out, std::string_view bytes) const {
  for (const char byte : bytes) out.append(character(static_cast<uint8_t>(byte)));
}

bool ByteAlphabet::append_bytes(std::string& out, std::string_view text) const {
  const size_t before = out.size();
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    const char32_t c = utf8::next(p);
    if (c >= bytes_.size() || bytes_[c] == kNoByte) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(bytes_[c]);
  }
  return true;
}

}  // namespace kvik::text
