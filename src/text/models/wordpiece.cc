#include "text/models/wordpiece.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/utf8.h"
#include "kvik/error.h"

namespace kvik::text {
namespace {

[[noreturn]] void refuse_unknown(const std::string& name) {
  throw Error(Code::kBadModel, fmt::format("the text has an unknown word, but the unknown token '{}' is not in the vocabulary", name));
}

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, WordPieceOptions options) : options_(std::move(options)) {
  vocabulary_ = std::move(vocabulary);
  std::vector<std::pair<std::string_view, int32_t>> strings;
  strings.reserve(vocabulary_.size());
  vocabulary_.for_each([&](std::string_view piece, TokenId id) { strings.emplace_back(piece, id); });
  trie_ = Trie::build(std::move(strings));
  continuing_ = trie_.walk(Trie::kRoot, options_.continuing_prefix);
  unknown_ = vocabulary_.find(options_.unknown);
}

bool WordPiece::cut(std::string_view word, std::vector<TokenId>& out) const {
  for (size_t begin = 0; begin < word.size();) {
    Trie::Node node = begin == 0 ? Trie::kRoot : continuing_;
    size_t end = begin;
    TokenId id = kNoToken;
    for (size_t at = begin; at < word.size() && node != Trie::kDead;) {
      node = trie_.step(node, static_cast<uint8_t>(word[at++]));
      if (node == Trie::kDead || trie_.value(node) == Trie::kNoValue) continue;
      id = trie_.value(node);
      end = at;
    }
    if (id == kNoToken) return false;
    out.push_back(id);
    begin = end;
  }
  return true;
}

void WordPiece::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  if (scratch.words.append(word, out)) return;
  const size_t before = out.size();
  const auto n_characters = static_cast<size_t>(std::count_if(word.begin(), word.end(), utf8::begins_character));
  if (n_characters > options_.max_characters || !cut(word, out)) {
    out.resize(before);
    if (unknown_ == kNoToken) refuse_unknown(options_.unknown);
    out.push_back(unknown_);
  }
  scratch.words.put(word, std::span(out).subspan(before));
}

WordLevel::WordLevel(Vocabulary vocabulary, std::string unknown) : unknown_name_(std::move(unknown)) {
  vocabulary_ = std::move(vocabulary);
  unknown_ = vocabulary_.find(unknown_name_);
}

void WordLevel::encode(std::string_view word, Scratch&, std::vector<TokenId>& out) const {
  const TokenId id = vocabulary_.find(word);
  if (id == kNoToken && unknown_ == kNoToken) refuse_unknown(unknown_name_);
  out.push_back(id == kNoToken ? unknown_ : id);
}

}  // namespace kvik::text
