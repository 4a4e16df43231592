#include "text/models/unigram.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include "base/utf8.h"
#include "kvik/error.h"

namespace kvik::text {

Unigram::Unigram(const Pieces& pieces, std::optional<int64_t> unknown, bool byte_fallback) : byte_fallback_(byte_fallback) {
  if (unknown && (*unknown < 0 || *unknown >= static_cast<int64_t>(pieces.size()))) {
    throw Error(Code::kBadModel, fmt::format("the unknown id {} is not one of the {} pieces", *unknown, pieces.size()));
  }
  std::vector<std::pair<std::string_view, int64_t>> list;
  list.reserve(pieces.size());
  scores_.reserve(pieces.size());
  double lowest = std::numeric_limits<double>::infinity();
  std::vector<std::pair<std::string_view, int32_t>> strings;
  strings.reserve(pieces.size());
  for (size_t id = 0; id < pieces.size(); ++id) {
    list.emplace_back(pieces[id].first, static_cast<int64_t>(id));
    scores_.push_back(pieces[id].second);
    strings.emplace_back(pieces[id].first, static_cast<int32_t>(id));
    lowest = std::min(lowest, pieces[id].second);
  }
  vocabulary_.add_all(list);
  trie_ = Trie::build(std::move(strings));
  constexpr double kUnknownPenalty = 10.0;
  unknown_score_ = lowest - kUnknownPenalty;
  if (unknown) unknown_ = static_cast<TokenId>(*unknown);
  for (size_t byte = 0; byte < 256; ++byte) byte_ids_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
}

void Unigram::refuse_unknown() {
  throw Error(Code::kBadArgument, "the text has an unknown character, and the tokenizer has no unknown token");
}

void Unigram::find_best(std::string_view word, std::vector<BestPath>& paths) const {
  paths.assign(word.size() + 1, {0.0, -1, kNoToken});
  const auto offer = [&](size_t begin, size_t end, double score, TokenId id) {
    BestPath& path = paths[end];
    if (path.begin >= 0 && !(score > path.score)) return;
    path = {score, static_cast<int32_t>(begin), id};
  };
  for (size_t begin = 0; begin < word.size();) {
    const double so_far = paths[begin].score;
    const size_t character_end = begin + utf8::size_of(word[begin]);
    bool has_character = false;
    Trie::Node node = Trie::kRoot;
    for (size_t end = begin; end < word.size();) {
      node = trie_.step(node, static_cast<uint8_t>(word[end++]));
      if (node == Trie::kDead) break;
      const int32_t id = trie_.value(node);
      if (id == Trie::kNoValue) continue;
      offer(begin, end, scores_[static_cast<size_t>(id)] + so_far, id);
      has_character = has_character || end == character_end;
    }
    if (!has_character) {
      if (unknown_ == kNoToken) refuse_unknown();
      offer(begin, character_end, unknown_score_ + so_far, unknown_);
    }
    begin = character_end;
  }
}

void Unigram::add_unknown(std::string_view text, std::vector<TokenId>& out) const {
  const TokenId known = vocabulary_.find(text);
  if (known != kNoToken) {
    out.push_back(known);
    return;
  }
  const bool in_bytes =
      byte_fallback_ && std::all_of(text.begin(), text.end(), [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)] != kNoToken; });
  if (!in_bytes) {
    out.push_back(unknown_);
    return;
  }
  for (const char byte : text) out.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
}

void Unigram::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  if (scratch.words.append(word, out)) return;
  if (word.size() > 0x7FFFFFFF) throw Error(Code::kTooLarge, "a word has more than 2 GB; encode the text in parts");
  std::vector<BestPath>& paths = scratch.paths;
  find_best(word, paths);
  std::vector<MergeSymbol>& cuts = scratch.symbols;  // last piece first
  cuts.clear();
  for (auto end = static_cast<int32_t>(word.size()); end > 0;) {
    const BestPath& path = paths[static_cast<size_t>(end)];
    const bool joins = path.id == unknown_ && !cuts.empty() && cuts.back().id == unknown_;
    if (joins) {
      cuts.back().previous = path.begin;
    } else {
      cuts.push_back({path.id, path.begin, end, 0});
    }
    end = path.begin;
  }
  const size_t before = out.size();
  for (size_t i = cuts.size(); i-- > 0;) {
    if (cuts[i].id != unknown_ || unknown_ == kNoToken) {
      out.push_back(cuts[i].id);
      continue;
    }
    const auto begin = static_cast<size_t>(cuts[i].previous);
    add_unknown(word.substr(begin, static_cast<size_t>(cuts[i].next) - begin), out);
  }
  scratch.words.put(word, std::span(out).subspan(before));
}

}  // namespace kvik::text
