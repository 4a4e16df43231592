#include <algorithm>

#include "base/utf8.h"
#include "text/models/spm_model.h"

namespace kvik::text {

// Scores are summed in single precision, as in the reference: it decides between nearly equal segmentations.
std::vector<SpmModel::Cut> SpmModel::cut_unigram(std::string_view text, Scratch& scratch) const {
  constexpr float kUnknownPenalty = 10.0f;
  const float unknown_score = lowest_ - kUnknownPenalty;
  std::vector<BestPath>& paths = scratch.paths;
  paths.assign(text.size() + 1, {0.0, -1, kNoToken});
  const auto offer = [&](size_t begin, size_t end, float score, TokenId id) {
    BestPath& path = paths[end];
    if (path.begin >= 0 && !(static_cast<double>(score) > path.score)) return;
    path = {static_cast<double>(score), static_cast<int32_t>(begin), id};
  };
  for (size_t begin = 0; begin < text.size();) {
    const auto so_far = static_cast<float>(paths[begin].score);
    const size_t character_end = begin + utf8::size_of(text[begin]);
    bool has_character = false;
    Trie::Node node = Trie::kRoot;
    for (size_t end = begin; end < text.size();) {
      node = trie_.step(node, static_cast<uint8_t>(text[end++]));
      if (node == Trie::kDead) break;
      const int32_t id = trie_.value(node);
      if (id == Trie::kNoValue) continue;
      const PieceData& piece = pieces_[static_cast<size_t>(id)];
      if (piece.kind == Kind::kUnused) continue;
      const auto length = static_cast<float>(end - begin);
      offer(begin, end, (piece.kind == Kind::kUserDefined ? length * highest_ - 0.1f : piece.score) + so_far, id);
      has_character = has_character || end == character_end;
    }
    if (!has_character) offer(begin, character_end, unknown_score + so_far, unknown_);
    begin = character_end;
  }
  std::vector<Cut> cuts;
  for (size_t end = text.size(); end > 0;) {
    const auto begin = static_cast<size_t>(paths[end].begin);
    cuts.push_back({text.substr(begin, end - begin), paths[end].id});
    end = begin;
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

namespace {

struct Symbol {
  std::string_view piece;
  int32_t previous, next;
  bool frozen;
};

struct Pair {
  float score;
  int32_t left, right;
  size_t size;
};

// Highest score first, leftmost first among equals.
bool comes_later(const Pair& a, const Pair& b) { return a.score < b.score || (a.score == b.score && a.left > b.left); }

}  // namespace

std::vector<SpmModel::Cut> SpmModel::cut_bpe(std::string_view text, Scratch&) const {
  std::vector<Symbol> symbols;
  for (size_t begin = 0; begin < text.size();) {
    const size_t symbol = user_defined_prefix(text.substr(begin));
    const size_t size = symbol > 0 ? symbol : utf8::size_of(text[begin]);
    const auto at = static_cast<int32_t>(symbols.size());
    symbols.push_back({text.substr(begin, size), at - 1, at + 1, symbol > 0});
    begin += size;
  }
  symbols.back().next = -1;
  std::vector<Pair> heap;
  MergedAt merged_at;
  const auto offer = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const Symbol& a = symbols[static_cast<size_t>(left)];
    const Symbol& b = symbols[static_cast<size_t>(right)];
    if (a.frozen || b.frozen) return;
    const std::string_view joined(a.piece.data(), a.piece.size() + b.piece.size());
    const TokenId id = vocabulary_.find(joined);
    if (id == kNoToken || kind(id) == Kind::kUnknown || kind(id) == Kind::kControl || kind(id) == Kind::kByte) return;
    if (kind(id) == Kind::kUnused) merged_at[joined] = a.piece.size();
    heap.push_back({pieces_[static_cast<size_t>(id)].score, left, right, joined.size()});
    std::push_heap(heap.begin(), heap.end(), comes_later);
  };
  for (size_t i = 1; i < symbols.size(); ++i) offer(static_cast<int32_t>(i) - 1, static_cast<int32_t>(i));
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    const Pair top = heap.back();
    heap.pop_back();
    Symbol& left = symbols[static_cast<size_t>(top.left)];
    Symbol& right = symbols[static_cast<size_t>(top.right)];
    if (left.piece.empty() || right.piece.empty() || left.piece.size() + right.piece.size() != top.size) continue;
    left.piece = {left.piece.data(), top.size};
    left.next = right.next;
    if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = top.left;
    right.piece = {};
    offer(left.previous, top.left);
    offer(top.left, left.next);
  }
  std::vector<Cut> cuts;
  for (int32_t at = 0; at >= 0; at = symbols[static_cast<size_t>(at)].next)
    undo_unused(symbols[static_cast<size_t>(at)].piece, merged_at, cuts);
  return cuts;
}

// An unused piece is only an intermediate result: if it remains, it is split into the pair that it was merged from.
void SpmModel::undo_unused(std::string_view piece, const MergedAt& merged_at, std::vector<Cut>& out) const {
  std::vector<std::string_view> open = {piece};
  while (!open.empty()) {
    const std::string_view top = open.back();
    open.pop_back();
    const TokenId id = id_of(top);
    const auto merged = kind(id) == Kind::kUnused ? merged_at.find(top) : merged_at.end();
    if (merged == merged_at.end()) {
      out.push_back({top, id});
      continue;
    }
    open.push_back(top.substr(merged->second));
    open.push_back(top.substr(0, merged->second));
  }
}

}  // namespace kvik::text
