#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/token.h"

namespace kvik::text {

inline constexpr TokenId kNoToken = -1;

// Pieces and their ids. Filled once, then read by any thread; views of pieces live as long as the object.
class Vocabulary {
 public:
  void reserve(size_t n_pieces, size_t n_bytes);
  // A piece seen before takes the new id; an id seen before takes the new piece. Throws when the id is negative or too large.
  void add(std::string_view piece, int64_t id);

  // kNoToken where there is none.
  TokenId find(std::string_view piece) const;
  bool contains(TokenId id) const { return index_of(id) != kNone; }
  // Empty where there is none.
  std::string_view piece(TokenId id) const;
  size_t size() const { return n_distinct_; }  // distinct pieces
  TokenId end_id() const { return end_id_; }   // one more than the largest id
  // Every piece with its id, in the order they were added (one that was added twice, once).
  template <class F>
  void for_each(F&& f) const {
    for (const Entry& entry : entries_) f(bytes_of(entry), entry.id);
  }

 private:
  struct Entry {
    uint32_t begin;
    uint32_t size;
    TokenId id;
  };
  struct Slot {
    uint32_t hash;
    uint32_t index;  // into entries_, kNone where free
  };
  static constexpr uint32_t kNone = 0xFFFFFFFFu;

  std::string_view bytes_of(const Entry& entry) const { return {bytes_.data() + entry.begin, entry.size}; }
  uint32_t index_of(TokenId id) const;
  void set_index(TokenId id, uint32_t index);
  void grow();

  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  std::vector<uint32_t> by_id_;
  std::unordered_map<TokenId, uint32_t> far_ids_;  // ids far beyond the count, so that a hostile id allocates nothing
  size_t n_distinct_ = 0;
  TokenId end_id_ = 0;
};

}  // namespace kvik::text
