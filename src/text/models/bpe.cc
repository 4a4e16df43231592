#include "text/models/bpe.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/utf8.h"
#include "kvik/error.h"
#include "text/models/hash.h"
#include "text/unicode/byte_alphabet.h"

namespace kvik::text {
namespace {

constexpr size_t kShortWord = 48;  // above this, a heap is faster than a linear search

size_t pair_hash(char32_t left, char32_t right) {
  const uint64_t key = static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
  return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 46);
}

char32_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && !utf8::begins_character(text[at])) --at;
  const char* p = text.data() + at;
  return utf8::next(p);
}

char32_t first_character(std::string_view text) {
  const char* p = text.data();
  return utf8::next(p);
}

}  // namespace

void MergeTable::reserve(size_t n_merges) {
  size_t n_slots = 16;
  while (n_slots < n_merges + n_merges / 2) n_slots *= 2;
  slots_.assign(n_slots, {});
  mask_ = n_slots - 1;
}

void MergeTable::add(TokenId left, TokenId right, Merge merge) {
  if ((n_used_ + 1) * 8 > slots_.size() * 7) {
    MergeTable larger;
    larger.reserve(std::max<size_t>(16, slots_.size() * 2));
    for (const Slot& slot : slots_) {
      if (slot.key != kFree) larger.add(static_cast<TokenId>(slot.key >> 32), static_cast<TokenId>(slot.key & 0xFFFFFFFFu), slot.merge);
    }
    *this = std::move(larger);
  }
  const uint64_t key = key_of(left, right);
  size_t at = place_of(key);
  while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & mask_;
  n_used_ += slots_[at].key == kFree ? 1 : 0;
  slots_[at] = {key, merge};
}

Bpe::Bpe(Vocabulary vocabulary, const Merges& merges, BpeOptions options) : options_(std::move(options)) {
  vocabulary_ = std::move(vocabulary);
  splits_ = options_.continuing_prefix.empty() && options_.end_of_word.empty();
  add_merges(merges);
  for (size_t byte = 0; byte < 256; ++byte) byte_ids_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
  for (size_t c = 0; c < 128; ++c) ascii_ids_[c] = vocabulary_.find(std::string(1, static_cast<char>(c)));
}

namespace {

struct Named {
  std::string_view piece;
  uint64_t hash;
};

// A merge in a block of add_merges().
struct PendingMerge {
  Named left, right, joined;
  TokenId left_id, right_id, joined_id;
};

}  // namespace

// In blocks, so that the cache misses of their lookups overlap: they dominate the time to load.
void Bpe::add_merges(const Merges& merges) {
  constexpr size_t kBlock = 32;
  const size_t n_prefix = options_.continuing_prefix.size();
  std::array<PendingMerge, kBlock> block;
  std::array<std::string, kBlock> joined;
  const auto named = [&](std::string_view piece) {
    const Named result = {piece, hash_bytes(piece)};
    vocabulary_.prefetch(result.hash);
    return result;
  };
  const auto find = [&](const Named& piece, size_t rank) {
    const TokenId id = vocabulary_.find(piece.piece, piece.hash);
    if (id != kNoToken) return id;
    throw Error(Code::kBadModel, fmt::format("merge {} needs the piece '{}', which is not in the vocabulary", rank, piece.piece));
  };
  merges_.reserve(merges.size());
  for (size_t begin = 0; begin < merges.size(); begin += kBlock) {
    const size_t n = std::min(kBlock, merges.size() - begin);
    for (size_t i = 0; i < n; ++i) {
      const auto& [left, right] = merges[begin + i];
      if (right.size() < n_prefix || left.empty() || right.empty()) {
        throw Error(Code::kBadModel, fmt::format("merge {} joins '{}' and '{}'; expected two pieces", begin + i, left, right));
      }
      joined[i].assign(left);
      joined[i].append(right.substr(n_prefix));
      block[i].left = named(left);
      block[i].right = named(right);
      block[i].joined = named(joined[i]);
      if (splits_) junctions_.set(pair_hash(last_character(left), first_character(right)));
    }
    for (size_t i = 0; i < n; ++i) {
      PendingMerge& merge = block[i];
      merge.left_id = find(merge.left, begin + i);
      merge.right_id = find(merge.right, begin + i);
      merge.joined_id = find(merge.joined, begin + i);
      merges_.prefetch(merge.left_id, merge.right_id);
    }
    for (size_t i = 0; i < n; ++i) {
      merges_.add(block[i].left_id, block[i].right_id, {static_cast<uint32_t>(begin + i), block[i].joined_id});
    }
  }
}

bool Bpe::accept_raw_bytes() {
  if (!options_.continuing_prefix.empty() || !options_.end_of_word.empty()) return false;
  const ByteAlphabet& alphabet = ByteAlphabet::instance();
  for (size_t byte = 0; byte < 256; ++byte) {
    alphabet_ids_[byte] = vocabulary_.find(alphabet.character(static_cast<uint8_t>(byte)));
    if (alphabet_ids_[byte] == kNoToken && (options_.unknown || options_.byte_fallback)) return false;
  }
  if (options_.ignore_merges) {
    raw_pieces_.reserve(vocabulary_.size(), vocabulary_.size() * 8);
    std::string bytes;
    vocabulary_.for_each([&](std::string_view piece, TokenId id) {
      bytes.clear();
      if (alphabet.append_bytes(bytes, piece)) raw_pieces_.add(bytes, id);
    });
  }
  bytes_ = true;
  return true;
}

TokenId Bpe::unknown_id() const {
  const TokenId id = vocabulary_.find(*options_.unknown);
  if (id == kNoToken) throw Error(Code::kBadModel, fmt::format("the unknown token '{}' is not in the vocabulary", *options_.unknown));
  return id;
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  if (scratch.words.append(word, out)) return;
  const size_t before = out.size();
  encode_whole(word, scratch, out);
  scratch.words.put(word, std::span(out).subspan(before));
}

void Bpe::encode_whole(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  if (options_.ignore_merges) {
    const TokenId id = (bytes_ ? raw_pieces_ : vocabulary_).find(word);
    if (id != kNoToken) {
      out.push_back(id);
      return;
    }
  }
  if (bytes_ || !splits_) {
    encode_part(word, scratch, out);
    return;
  }
  for (size_t begin = 0; begin < word.size();) {
    const size_t end = part_end(word, begin);
    const std::string_view part = word.substr(begin, end - begin);
    begin = end;
    // The cache has whole words; a part may be stored only if it cannot be confused with a word that is a piece.
    if (options_.ignore_merges) {
      encode_part(part, scratch, out);
      continue;
    }
    if (scratch.words.append(part, out)) continue;
    const size_t before = out.size();
    encode_part(part, scratch, out);
    scratch.words.put(part, std::span(out).subspan(before));
  }
}

// The first position after `begin` that no merge can cross. Never next to a character that is not in the vocabulary, since such
// characters become bytes or are fused into one unknown token.
size_t Bpe::part_end(std::string_view word, size_t begin) const {
  const char* p = word.data() + begin;
  const char* const end = word.data() + word.size();
  const auto known = [&](char32_t c, const char* from, const char* to) {
    return c < 128 ? ascii_ids_[c] != kNoToken : vocabulary_.find({from, static_cast<size_t>(to - from)}) != kNoToken;
  };
  const char* left_begin = p;
  char32_t left = utf8::next(p);
  while (p < end) {
    const char* const border = p;
    const char32_t right = utf8::next(p);
    if (!junctions_.test(pair_hash(left, right)) && known(left, left_begin, border) && known(right, border, p)) {
      return static_cast<size_t>(border - word.data());
    }
    left = right;
    left_begin = border;
  }
  return word.size();
}

void Bpe::encode_part(std::string_view part, Scratch& scratch, std::vector<TokenId>& out) const {
  if (part.size() > 0x7FFFFFFF) throw Error(Code::kTooLarge, "a word has more than 2 GB; encode the text in parts");
  scratch.symbols.clear();
  if (bytes_) {
    for (const char byte : part) {
      const TokenId id = alphabet_ids_[static_cast<uint8_t>(byte)];
      if (id != kNoToken) scratch.symbols.push_back({id, 0, 0, 1});
    }
  } else {
    read_symbols(part, scratch.symbols);
  }
  if (scratch.symbols.size() <= kShortWord) {
    merge_short(scratch, out);
  } else {
    merge_long(scratch, out);
  }
}

bool Bpe::add_byte_tokens(std::string_view character, std::vector<MergeSymbol>& symbols) const {
  for (const char byte : character) {
    if (byte_ids_[static_cast<uint8_t>(byte)] == kNoToken) return false;
  }
  for (const char byte : character) symbols.push_back({byte_ids_[static_cast<uint8_t>(byte)], 0, 0, 1});
  return true;
}

// An unknown token is held back until the next known character, so that others can be fused with it; bytes do not end that.
void Bpe::read_symbols(std::string_view word, std::vector<MergeSymbol>& symbols) const {
  MergeSymbol unknown = {kNoToken, 0, 0, 0};
  std::string decorated;
  for (size_t begin = 0; begin < word.size();) {
    const size_t size = utf8::size_of(word[begin]);
    std::string_view character = word.substr(begin, size);
    TokenId id;
    if (splits_) {
      id = size == 1 ? ascii_ids_[static_cast<uint8_t>(character[0])] : vocabulary_.find(character);
    } else {
      decorated.clear();
      if (begin > 0) decorated += options_.continuing_prefix;
      decorated += character;
      if (begin + size == word.size()) decorated += options_.end_of_word;
      character = decorated;
      id = vocabulary_.find(character);
    }
    begin += size;
    if (id != kNoToken) {
      if (unknown.id != kNoToken) symbols.push_back(unknown);
      unknown.id = kNoToken;
      symbols.push_back({id, 0, 0, static_cast<uint32_t>(size)});
      continue;
    }
    if (options_.byte_fallback && add_byte_tokens(character, symbols)) continue;
    if (!options_.unknown) continue;
    if (unknown.id != kNoToken && options_.fuse_unknown) {
      unknown.size += static_cast<uint32_t>(size);
      continue;
    }
    if (unknown.id != kNoToken) symbols.push_back(unknown);
    unknown = {unknown_id(), 0, 0, static_cast<uint32_t>(size)};
  }
  if (unknown.id != kNoToken) symbols.push_back(unknown);
}

void Bpe::merge_short(Scratch& scratch, std::vector<TokenId>& out) const {
  std::array<TokenId, kShortWord> ids;
  std::array<MergeTable::Merge, kShortWord> merges;  // of a symbol and the next one
  size_t n = scratch.symbols.size();
  if (n == 0) return;
  for (size_t i = 0; i < n; ++i) ids[i] = scratch.symbols[i].id;
  for (size_t i = 0; i + 1 < n; ++i) merges[i] = merges_.find(ids[i], ids[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == MergeTable::kNever) break;
    ids[best] = merges[best].id;
    --n;
    for (size_t i = best + 1; i < n; ++i) ids[i] = ids[i + 1];
    for (size_t i = best; i + 1 < n; ++i) merges[i] = merges[i + 1];
    if (best > 0) merges[best - 1] = merges_.find(ids[best - 1], ids[best]);
    if (best + 1 < n) merges[best] = merges_.find(ids[best], ids[best + 1]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n));
}

void Bpe::merge_long(Scratch& scratch, std::vector<TokenId>& out) const {
  std::vector<MergeSymbol>& symbols = scratch.symbols;
  std::vector<MergeCandidate>& heap = scratch.candidates;
  const auto later = [](const MergeCandidate& a, const MergeCandidate& b) { return a.order > b.order; };
  const auto n = static_cast<int32_t>(symbols.size());
  const auto candidate = [&](int32_t at) -> std::optional<MergeCandidate> {
    const MergeSymbol& left = symbols[static_cast<size_t>(at)];
    if (left.next < 0) return std::nullopt;
    const MergeSymbol& right = symbols[static_cast<size_t>(left.next)];
    const MergeTable::Merge merge = merges_.find(left.id, right.id);
    if (merge.rank == MergeTable::kNever) return std::nullopt;
    return MergeCandidate{static_cast<uint64_t>(merge.rank) << 32 | static_cast<uint32_t>(at), left.id, right.id};
  };
  heap.clear();
  for (int32_t i = 0; i < n; ++i) {
    symbols[static_cast<size_t>(i)].previous = i - 1;
    symbols[static_cast<size_t>(i)].next = i + 1 < n ? i + 1 : -1;
  }
  for (int32_t i = 0; i < n; ++i) {
    if (const auto found = candidate(i)) heap.push_back(*found);
  }
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const MergeCandidate top = heap.back();
    heap.pop_back();
    const auto at = static_cast<int32_t>(top.order & 0xFFFFFFFFu);
    MergeSymbol& left = symbols[static_cast<size_t>(at)];
    if (left.size == 0 || left.id != top.left || left.next < 0) continue;
    MergeSymbol& right = symbols[static_cast<size_t>(left.next)];
    if (right.id != top.right) continue;
    left.id = merges_.find(top.left, top.right).id;
    left.size += right.size;
    left.next = right.next;
    right.size = 0;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = at;
    for (const int32_t place : {left.previous, at}) {
      if (place < 0) continue;
      if (const auto found = candidate(place)) {
        heap.push_back(*found);
        std::push_heap(heap.begin(), heap.end(), later);
      }
    }
  }
  for (const MergeSymbol& symbol : symbols) {
    if (symbol.size != 0) out.push_back(symbol.id);
  }
}

}  // namespace kvik::text
