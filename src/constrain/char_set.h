#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace kvik::constrain {

struct CharRange {
  char32_t first, last;  // both included
  auto operator<=>(const CharRange&) const = default;
};

inline constexpr char32_t kLastChar = 0x10FFFF;

// A set of Unicode characters; it never contains surrogates.
class CharSet {
 public:
  CharSet() = default;
  CharSet(std::initializer_list<CharRange> ranges) : CharSet(std::vector<CharRange>(ranges)) {}
  explicit CharSet(std::vector<CharRange> ranges);  // in any order, may overlap
  static CharSet all() { return CharSet({{0, kLastChar}}); }
  static CharSet of(char32_t c) { return CharSet({{c, c}}); }

  std::span<const CharRange> ranges() const { return ranges_; }  // sorted, with gaps between them
  bool empty() const { return ranges_.empty(); }
  bool contains(char32_t c) const;

  CharSet unite(const CharSet& other) const;
  CharSet intersect(const CharSet& other) const;
  CharSet negate() const;
  bool operator==(const CharSet&) const = default;

 private:
  std::vector<CharRange> ranges_;
};

struct ByteRange {
  uint8_t first, last;
};

// Characters whose UTF-8 encodings have one byte of each range, in this order.
struct ByteSequence {
  int n = 0;
  ByteRange bytes[4] = {};
};

// The encodings of a set as sequences that do not overlap.
std::vector<ByteSequence> utf8_sequences(const CharSet& set);

}  // namespace kvik::constrain
