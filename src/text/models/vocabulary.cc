#include "text/models/vocabulary.h"

#include <algorithm>
#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::text {
namespace {

constexpr int64_t kMaxId = 0x3FFFFFFF;

}  // namespace

void Vocabulary::reserve(size_t n_pieces, size_t n_bytes) {
  bytes_.reserve(n_bytes);
  entries_.reserve(n_pieces);
  by_id_.reserve(n_pieces);
  size_t n_slots = 16;
  while (n_slots * 2 < n_pieces * 3) n_slots *= 2;
  if (n_slots > slots_.size()) resize(n_slots);
}

void Vocabulary::resize(size_t n_slots) {
  std::vector<Slot> old(n_slots);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.index == kNone) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].index != kNone) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

void Vocabulary::add(std::string_view piece, int64_t id) { add_hashed(piece, id, hash_bytes(piece)); }

void Vocabulary::add_all(const std::vector<std::pair<std::string_view, int64_t>>& pieces) {
  constexpr size_t kAhead = 16;
  size_t n_bytes = 0;
  std::vector<uint64_t> hashes;
  hashes.reserve(pieces.size());
  for (const auto& [piece, id] : pieces) {
    n_bytes += piece.size();
    hashes.push_back(hash_bytes(piece));
  }
  reserve(entries_.size() + pieces.size(), bytes_.size() + n_bytes);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i + kAhead < pieces.size()) prefetch(hashes[i + kAhead]);
    add_hashed(pieces[i].first, pieces[i].second, hashes[i]);
  }
}

void Vocabulary::add_hashed(std::string_view piece, int64_t id, uint64_t whole_hash) {
  if (id < 0 || id > kMaxId) {
    throw Error(Code::kBadModel, fmt::format("id {} of the piece '{}' is out of range; expected 0 to {}", id, piece, kMaxId));
  }
  if (bytes_.size() + piece.size() >= kNone) throw Error(Code::kTooLarge, "the vocabulary has more than 4 GB of pieces");
  if ((entries_.size() + 1) * 3 > slots_.size() * 2) resize(std::max<size_t>(16, slots_.size() * 2));
  const auto hash = static_cast<uint32_t>(whole_hash);
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  for (; slots_[at].index != kNone; at = (at + 1) & mask) {
    if (slots_[at].hash != hash || bytes_of(slots_[at]) != piece) continue;
    entries_[slots_[at].index].id = static_cast<TokenId>(id);
    set_index(static_cast<TokenId>(id), slots_[at].index);
    return;
  }
  const auto index = static_cast<uint32_t>(entries_.size());
  const Entry entry = {static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(piece.size()), static_cast<TokenId>(id)};
  entries_.push_back(entry);
  bytes_.append(piece);
  slots_[at] = {hash, index, entry.begin, entry.size};
  ++n_distinct_;
  set_index(static_cast<TokenId>(id), index);
}

TokenId Vocabulary::find(std::string_view piece, uint64_t whole_hash) const {
  if (slots_.empty()) return kNoToken;
  const auto hash = static_cast<uint32_t>(whole_hash);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask; slots_[at].index != kNone; at = (at + 1) & mask) {
    if (slots_[at].hash == hash && bytes_of(slots_[at]) == piece) return entries_[slots_[at].index].id;
  }
  return kNoToken;
}

std::string_view Vocabulary::piece(TokenId id) const {
  const uint32_t index = index_of(id);
  return index == kNone ? std::string_view() : bytes_of(entries_[index]);
}

uint32_t Vocabulary::index_of(TokenId id) const {
  if (id >= 0 && static_cast<size_t>(id) < by_id_.size()) return by_id_[static_cast<size_t>(id)];
  if (far_ids_.empty()) return kNone;
  const auto found = far_ids_.find(id);
  return found == far_ids_.end() ? kNone : found->second;
}

void Vocabulary::set_index(TokenId id, uint32_t index) {
  end_id_ = std::max(end_id_, id + 1);
  const auto slot = static_cast<size_t>(id);
  if (slot < by_id_.size()) {
    by_id_[slot] = index;
    return;
  }
  if (slot > entries_.size() * 8 + 65536) {
    far_ids_[id] = index;
    return;
  }
  by_id_.resize(slot + 1, kNone);
  by_id_[slot] = index;
  if (const auto far = far_ids_.find(id); far != far_ids_.end()) far_ids_.erase(far);
}

}  // namespace kvik::text
