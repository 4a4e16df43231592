#include "text/vocabulary.h"

#include <algorithm>
#include <fmt/format.h>

#include "kvik/error.h"
#include "text/hash.h"

namespace kvik::text {
namespace {

constexpr int64_t kMaxId = 0x3FFFFFFF;

}  // namespace

void Vocabulary::reserve(size_t n_pieces, size_t n_bytes) {
  bytes_.reserve(n_bytes);
  entries_.reserve(n_pieces);
  by_id_.reserve(n_pieces);
  size_t n_slots = 16;
  while (n_slots < n_pieces * 2) n_slots *= 2;
  if (n_slots > slots_.size() && entries_.empty()) slots_.assign(n_slots, {0, kNone});
}

void Vocabulary::grow() {
  std::vector<Slot> old(std::max<size_t>(16, slots_.size() * 2), {0, kNone});
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.index == kNone) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].index != kNone) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

void Vocabulary::add(std::string_view piece, int64_t id) {
  if (id < 0 || id > kMaxId) {
    throw Error(Code::kBadModel, fmt::format("the id {} of the piece '{}' is out of range; ids are between 0 and {}", id, piece, kMaxId));
  }
  if (bytes_.size() + piece.size() >= kNone) throw Error(Code::kTooLarge, "the vocabulary has more than 4 GB of pieces");
  if (entries_.size() * 2 >= slots_.size()) grow();
  const auto hash = static_cast<uint32_t>(hash_bytes(piece));
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  for (; slots_[at].index != kNone; at = (at + 1) & mask) {
    if (slots_[at].hash != hash || bytes_of(entries_[slots_[at].index]) != piece) continue;
    entries_[slots_[at].index].id = static_cast<TokenId>(id);
    set_index(static_cast<TokenId>(id), slots_[at].index);
    return;
  }
  const auto index = static_cast<uint32_t>(entries_.size());
  entries_.push_back({static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(piece.size()), static_cast<TokenId>(id)});
  bytes_.append(piece);
  slots_[at] = {hash, index};
  ++n_distinct_;
  set_index(static_cast<TokenId>(id), index);
}

TokenId Vocabulary::find(std::string_view piece) const {
  if (slots_.empty()) return kNoToken;
  const auto hash = static_cast<uint32_t>(hash_bytes(piece));
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask; slots_[at].index != kNone; at = (at + 1) & mask) {
    if (slots_[at].hash == hash && bytes_of(entries_[slots_[at].index]) == piece) return entries_[slots_[at].index].id;
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
