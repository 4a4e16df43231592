#pragma once

#include <array>
#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/model.h"

namespace kvik::text {

// Rank and result of every pair that merges.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    TokenId id;
  };
  static constexpr uint32_t kNever = 0xFFFFFFFFu;

  void reserve(size_t n_merges);
  // A pair given twice takes the later rank.
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
  bool ignore_merges = false;  // a word that is a piece is that piece, whatever the merges say
};

// Byte-pair encoding: merges neighbours, the lowest rank first, the leftmost of equals.
class Bpe final : public Model {
 public:
  using Merges = std::vector<std::pair<std::string_view, std::string_view>>;
  // Throws where a merge names a piece that the vocabulary lacks.
  Bpe(Vocabulary vocabulary, const Merges& merges, BpeOptions options);

  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const override;
  bool take_bytes() override;

 private:
  void encode_whole(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_part(std::string_view part, Scratch& scratch, std::vector<TokenId>& out) const;
  void read_symbols(std::string_view word, std::vector<MergeSymbol>& symbols) const;
  bool add_bytes_of(std::string_view character, std::vector<MergeSymbol>& symbols) const;
  void merge_short(Scratch& scratch, std::vector<TokenId>& out) const;
  void merge_long(Scratch& scratch, std::vector<TokenId>& out) const;
  void add_merges(const Merges& merges);
  size_t part_end(std::string_view word, size_t begin) const;
  TokenId unknown_id() const;

  MergeTable merges_;
  BpeOptions options_;
  std::array<TokenId, 256> byte_ids_;      // of <0x00> to <0xFF>
  std::array<TokenId, 256> alphabet_ids_;  // of the character for each byte, when bytes_
  std::array<TokenId, 128> ascii_ids_;
  bool bytes_ = false;
  Vocabulary raw_pieces_;  // pieces as the bytes they spell, when bytes_ and ignore_merges
  // Pairs of characters over which some merge reaches, hashed: a word can be cut wherever none does. A clash only means no cut.
  std::bitset<1 << 18> junctions_;
  bool cuts_ = false;
};

}  // namespace kvik::text
