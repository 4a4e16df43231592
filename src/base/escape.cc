#include "base/escape.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "base/utf8.h"

namespace kvik {
namespace {

struct Range {
  char32_t first, last;
};

constexpr Range kEscaped[] = {
    {0x00, 0x1F},        // ASCII control characters
    {0x7F, 0x9F},        // delete, and the C1 controls: U+009B starts a terminal escape as "ESC [" does
    {0xAD, 0xAD},        // soft hyphen
    {0x61C, 0x61C},      // Arabic letter mark
    {0x200B, 0x200B},    // zero-width space
    {0x200E, 0x200F},    // left-to-right and right-to-left marks
    {0x2028, 0x202E},    // line and paragraph separators, bidirectional embeddings and overrides
    {0x2060, 0x206F},    // invisible operators, bidirectional isolates
    {0xFEFF, 0xFEFF},    // zero-width no-break space
    {0xFFF9, 0xFFFB},    // interlinear annotations
    {0xE0000, 0xE007F},  // tags
};

bool is_escaped(char32_t c) {
  return std::any_of(std::begin(kEscaped), std::end(kEscaped), [c](const Range& range) { return range.first <= c && c <= range.last; });
}

void append_escape(std::string& out, char32_t c) {
  const auto value = static_cast<uint32_t>(c);
  switch (c) {
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: break;
  }
  if (value < 0x80) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", value);
  } else if (value < 0x10000) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", value);
  } else {
    fmt::format_to(std::back_inserter(out), "\\U{:08x}", value);
  }
}

}  // namespace

std::string escape_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const utf8::Step step = utf8::step(text.substr(at));
    if (!step.valid) {
      for (size_t i = 0; i < step.size; ++i) fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<uint8_t>(text[at + i]));
    } else if (is_escaped(step.code_point)) {
      append_escape(out, step.code_point);
    } else {
      out += text.substr(at, step.size);
    }
    at += step.size;
  }
  return out;
}

}  // namespace kvik
