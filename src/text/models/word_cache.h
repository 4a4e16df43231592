#pragma once

#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "text/models/hash.h"

namespace kvik::text {

// A direct-mapped cache of the ids of words. One thread at a time.
class WordCache {
 public:
  // Appends the ids; false if the word is not in the cache.
  bool append(std::string_view word, std::vector<TokenId>& out) {
    if (word.size() > kMaxBytes || entries_.empty()) return false;
    const Entry& entry = entries_[slot_of(word)];
    if (entry.size != word.size() || std::memcmp(entry.word.data(), word.data(), word.size()) != 0) return false;
    out.insert(out.end(), entry.ids.begin(), entry.ids.begin() + entry.n_ids);
    return true;
  }

  void put(std::string_view word, std::span<const TokenId> ids) {
    if (word.empty() || word.size() > kMaxBytes || ids.size() > kMaxIds) return;
    if (entries_.empty()) entries_.resize(kSlots);
    Entry& entry = entries_[slot_of(word)];
    entry.size = static_cast<uint8_t>(word.size());
    entry.n_ids = static_cast<uint8_t>(ids.size());
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
  }

 private:
  static constexpr size_t kMaxBytes = 26;
  static constexpr size_t kMaxIds = 9;
  static constexpr size_t kSlots = 1 << 14;  // 1 MB: more is not faster on prose, less is 10 % slower

  struct alignas(64) Entry {
    uint8_t size = 0;
    uint8_t n_ids = 0;
    std::array<char, kMaxBytes> word;
    std::array<TokenId, kMaxIds> ids;
  };
  static_assert(sizeof(Entry) == 64);

  static size_t slot_of(std::string_view word) { return hash_bytes(word) & (kSlots - 1); }

  std::vector<Entry> entries_;
};

}  // namespace kvik::text
