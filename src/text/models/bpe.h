#pragma once

#include <array>
#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/models/model.h"

namespace kvik::text {

// Rank and result of every merge.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    TokenId id;
  };
  static constexpr uint32_t kNever = 0xFFFFFFFFu;

  void reserve(size_t n_merges);
  // A pair that is added twice has the later rank.
  void add(TokenId left, TokenId right, Merge merge);
  void prefetch(TokenId left, TokenId right) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[place_of(key_of(left, right))]);
  }
  Merge find(TokenId left, TokenId right) const {
    if (slots_.empty()) return {kNever, kNoToken};
    const uint64_t key = key_of(left, right);
    for (size_t at = place_of(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].merge;
      if (slots_[at].key == kFree) return {kNever, kNoToken};
    }
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  struct Slot {
    uint64_t key = kFree;
    Merge merge = {kNever, kNoToken};
  };
  static uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t place_of(uint64_t key) const { return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 32 ^ key) & mask_; }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t n_used_ = 0;
};

struct BpeOptions {
  std::optional<std::string> unknown;
  std::string continuing_prefix;
  std::string end_of_word;
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a word in the vocabulary is one token, regardless of merges
};

// Byte-pair encoding: merges adjacent symbols, lowest rank first, leftmost first among equals.
class Bpe final : public Model {
 public:
  using Merges = std::vector<std::pair<std::string_view, std::string_view>>;
  // Throws if a merge needs a piece that is not in the vocabulary.
  Bpe(Vocabulary vocabulary, const Merges& merges, BpeOptions options);

  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const override;
  bool accept_raw_bytes() override;

 private:
  void encode_whole(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_part(std::string_view part, Scratch& scratch, std::vector<TokenId>& out) const;
  void read_symbols(std::string_view word, std::vector<MergeSymbol>& symbols) const;
  bool add_byte_tokens(std::string_view character, std::vector<MergeSymbol>& symbols) const;
  void merge_short(Scratch& scratch, std::vector<TokenId>& out) const;
  void merge_long(Scratch& scratch, std::vector<TokenId>& out) const;
  void add_merges(const Merges& merges);
  size_t part_end(std::string_view word, size_t begin) const;
  TokenId unknown_id() const;

  MergeTable merges_;
  BpeOptions options_;
  std::array<TokenId, 256> byte_ids_;      // of <0x00> to <0xFF>
  std::array<TokenId, 256> alphabet_ids_;  // of the character for each byte, if bytes_
  std::array<TokenId, 128> ascii_ids_;
  bool bytes_ = false;
  Vocabulary raw_pieces_;  // pieces as bytes, if bytes_ and ignore_merges
  // Hashed pairs of adjacent characters that some merge crosses: a word can be split at all other pairs. A collision only prevents a split.
  std::bitset<1 << 18> junctions_;
  bool splits_ = false;
};

}  // namespace kvik::text
