#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/token.h"
#include "text/models/hash.h"

namespace kvik::text {

inline constexpr TokenId kNoToken = -1;

// Pieces and their ids. Filled once, then read by any thread; views of pieces are valid as long as the object.
class Vocabulary {
 public:
  void reserve(size_t n_pieces, size_t n_bytes);
  // Overwrites the id of an existing piece, and the piece of an existing id. Throws if the id is negative or too large.
  void add(std::string_view piece, int64_t id);

  // Adds all pieces; several times faster than one by one, since cache misses overlap.
  void add_all(const std::vector<std::pair<std::string_view, int64_t>>& pieces);

  // kNoToken if there is none.
  TokenId find(std::string_view piece) const { return find(piece, hash_bytes(piece)); }
  // With hash_bytes() of the piece; call prefetch() some time before to avoid a cache miss.
  TokenId find(std::string_view piece, uint64_t hash) const;
  void prefetch(uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]);
  }
  bool contains(TokenId id) const { return index_of(id) != kNone; }
  // Empty if there is none.
  std::string_view piece(TokenId id) const;
  size_t size() const { return n_distinct_; }  // distinct pieces
  TokenId end_id() const { return end_id_; }   // one more than the largest id
  // Every piece with its id, in the order of adding, without duplicates.
  template <class F>
  void for_each(F&& f) const {
    for (const Entry& entry : entries_) f(bytes_of(entry), entry.id);
  }

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFFu;
  struct Entry {
    uint32_t begin;
    uint32_t size;
    TokenId id;
  };
  struct Slot {
    uint32_t hash = 0;
    uint32_t index = kNone;  // into entries_; kNone if free
    uint32_t begin = 0;      // copied from the entry, to avoid a cache miss
    uint32_t size = 0;
  };

  std::string_view bytes_of(const Slot& slot) const { return {bytes_.data() + slot.begin, slot.size}; }
  std::string_view bytes_of(const Entry& entry) const { return {bytes_.data() + entry.begin, entry.size}; }
  uint32_t index_of(TokenId id) const;
  void set_index(TokenId id, uint32_t index);
  void resize(size_t n_slots);
  void add_hashed(std::string_view piece, int64_t id, uint64_t hash);

  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most two thirds full
  std::vector<uint32_t> by_id_;
  std::unordered_map<TokenId, uint32_t> far_ids_;  // ids far above the count, so that a hostile id does not allocate much
  size_t n_distinct_ = 0;
  TokenId end_id_ = 0;
};

}  // namespace kvik::text
