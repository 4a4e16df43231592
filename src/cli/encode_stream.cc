#include "cli/encode_stream.h"

#include <algorithm>

namespace kvik::cli {
namespace {

constexpr size_t kContextBytes = 1024;  // on both sides of a cut
constexpr int kMaxTries = 64;

bool is_space(char c) { return c == ' ' || c == '\n'; }
// A letter, or a byte of a non-ASCII character.
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80; }

// Starts at a character, if `text` is UTF-8.
std::string_view last_bytes(std::string_view text, size_t n) {
  size_t begin = text.size() - std::min(n, text.size());
  while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) ++begin;
  return text.substr(begin);
}

std::string_view first_bytes(std::string_view text, size_t n) {
  size_t end = std::min(n, text.size());
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return text.substr(0, end);
}

}  // namespace

void EncodeStream::push(std::string_view text) {
  text_ += text;
  while (text_.size() >= next_try_bytes_) {
    const Cut cut = find_cut();
    const std::string_view left = std::string_view(text_).substr(0, cut.end);
    if (cut.end == 0 || (is_first_ && !find_affixes(left))) {
      next_try_bytes_ = 2 * text_.size();
      return;
    }
    take_(encode_(left, Part::kMiddle));
    text_.erase(0, cut.begin);
    next_try_bytes_ = kPortionBytes;
  }
}

void EncodeStream::finish() {
  take_(encode_(text_, is_first_ ? Part::kWhole : Part::kMiddle));
  take_(behind_);
  text_.clear();
}

// Finds the ids that are added before a text, which are passed on at once, and those that are added after it.
bool EncodeStream::find_affixes(std::string_view text) {
  const std::vector<TokenId> middle = encode_(text, Part::kMiddle), whole = encode_(text, Part::kWhole);
  const auto begin = std::search(whole.begin(), whole.end(), middle.begin(), middle.end());
  if (middle.empty() || begin == whole.end()) return false;
  take_(std::span(whole).first(static_cast<size_t>(begin - whole.begin())));
  behind_.assign(begin + static_cast<ptrdiff_t>(middle.size()), whole.end());
  is_first_ = false;
  return true;
}

// The last position where a cut does not change the ids. Some tokenizers put a space before every text; for those, the right side begins
// after the white space.
EncodeStream::Cut EncodeStream::find_cut() const {
  int n_tries = 0;
  for (size_t at = text_.size() - kContextBytes; at > text_.size() / 2 && n_tries < kMaxTries; --at) {
    if (!is_space(text_[at]) || !is_word(text_[at - 1]) || !is_word(text_[at + 1])) continue;
    ++n_tries;
    for (const size_t begin : {at, at + 1}) {
      if (agrees({at, begin})) return {at, begin};
    }
  }
  return {};
}

bool EncodeStream::agrees(const Cut& cut) const {
  const std::string_view text = text_;
  const std::string_view left = last_bytes(text.substr(0, cut.end), kContextBytes);
  const std::string_view right = first_bytes(text.substr(cut.begin), kContextBytes);
  const std::string_view both(left.data(), static_cast<size_t>(right.data() + right.size() - left.data()));
  std::vector<TokenId> apart = encode_(left, Part::kMiddle);
  const std::vector<TokenId> second = encode_(right, Part::kMiddle);
  apart.insert(apart.end(), second.begin(), second.end());
  return apart == encode_(both, Part::kMiddle);
}

}  // namespace kvik::cli
