#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvik::text {

// The precompiled character map of SentencePiece models: a double-array trie over bytes, and the replacement texts.
// Immutable: any thread may read.
class Charsmap {
 public:
  Charsmap() = default;
  // Throws Error(kBadModel) if the bytes are invalid. An empty blob replaces nothing.
  explicit Charsmap(std::string_view blob);

  bool empty() const { return units_.empty(); }
  struct Match {
    size_t size = 0;  // bytes of text that are replaced; 0 if there is no match
    std::string_view replacement;
  };
  Match longest(std::string_view text) const { return find(text, false); }
  Match shortest(std::string_view text) const { return find(text, true); }

 private:
  Match find(std::string_view text, bool first) const;

  std::vector<uint32_t> units_;
  std::string texts_;  // each ends in a zero byte
};

}  // namespace kvik::text
