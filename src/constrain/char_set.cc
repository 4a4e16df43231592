#include "constrain/char_set.h"

#include <algorithm>

namespace kvik::constrain {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

uint8_t continuation(char32_t c, int shift) { return static_cast<uint8_t>(0x80 | ((c >> shift) & 0x3F)); }

// Both ends have encodings of n bytes.
void add_sequences(char32_t first, char32_t last, int n, std::vector<ByteSequence>& out) {
  // Cut where a continuation byte would not cover all its values.
  for (int i = 1; i < n; ++i) {
    const char32_t mask = (char32_t{1} << (6 * i)) - 1;
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      add_sequences(first, first | mask, n, out);
      add_sequences((first | mask) + 1, last, n, out);
      return;
    }
    if ((last & mask) != mask) {
      add_sequences(first, (last & ~mask) - 1, n, out);
      add_sequences(last & ~mask, last, n, out);
      return;
    }
  }
  static constexpr uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  ByteSequence sequence{n, {}};
  const int top = 6 * (n - 1);
  sequence.bytes[0] = {static_cast<uint8_t>(kLead[n] | (first >> top)), static_cast<uint8_t>(kLead[n] | (last >> top))};
  for (int i = 1; i < n; ++i) sequence.bytes[i] = {continuation(first, top - 6 * i), continuation(last, top - 6 * i)};
  out.push_back(sequence);
}

}  // namespace

CharSet::CharSet(std::vector<CharRange> ranges) {
  std::vector<CharRange> cut;
  for (const CharRange& range : ranges) {
    const char32_t last = std::min(range.last, kLastChar);
    if (range.first > last) continue;
    if (range.first < kFirstSurrogate) cut.push_back({range.first, std::min<char32_t>(last, kFirstSurrogate - 1)});
    if (last > kLastSurrogate) cut.push_back({std::max<char32_t>(range.first, kLastSurrogate + 1), last});
  }
  std::ranges::sort(cut, {}, &CharRange::first);
  for (const CharRange& range : cut) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

bool CharSet::contains(char32_t c) const {
  const auto after = std::ranges::upper_bound(ranges_, c, {}, &CharRange::first);
  return after != ranges_.begin() && std::prev(after)->last >= c;
}

CharSet CharSet::unite(const CharSet& other) const {
  std::vector<CharRange> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return CharSet(std::move(both));
}

CharSet CharSet::negate() const {
  std::vector<CharRange> gaps;
  char32_t next = 0;
  for (const CharRange& range : ranges_) {
    if (range.first > next) gaps.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastChar) gaps.push_back({next, kLastChar});
  return CharSet(std::move(gaps));
}

CharSet CharSet::intersect(const CharSet& other) const { return negate().unite(other.negate()).negate(); }

std::vector<ByteSequence> utf8_sequences(const CharSet& set) {
  static constexpr char32_t kLastOfSize[] = {0x7F, 0x7FF, 0xFFFF, kLastChar};
  std::vector<ByteSequence> sequences;
  for (const CharRange& range : set.ranges()) {
    char32_t first = range.first;
    for (int n = 1; n <= 4 && first <= range.last; ++n) {
      if (first > kLastOfSize[n - 1]) continue;
      const char32_t last = std::min(range.last, kLastOfSize[n - 1]);
      if (n == 1) {
        sequences.push_back({1, {{static_cast<uint8_t>(first), static_cast<uint8_t>(last)}}});
      } else {
        add_sequences(first, last, n, sequences);
      }
      first = last + 1;
    }
  }
  return sequences;
}

}  // namespace kvik::constrain
