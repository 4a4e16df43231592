#include "text/steps/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"
#include "text/unicode/unicode.h"

namespace kvik::text {
namespace {

char32_t character_before(std::string_view text, size_t at) {
  do { --at; } while (!utf8::begins_character(text[at]));
  const char* p = text.data() + at;
  return utf8::next(p);
}

char32_t character_at(std::string_view text, size_t at) {
  const char* p = text.data() + at;
  return utf8::next(p);
}

}  // namespace

void AddedTokens::add(const std::vector<AddedToken>& tokens, const Model& model) {
  model_ = &model;
  for (const AddedToken& token : tokens) {
    if (!token.special || token.content.empty() || special_.contains(token.content)) continue;
    special_order_.push_back(token);
    special_.insert(token.content);
  }
  const auto n_model = static_cast<TokenId>(model.size());
  TokenId next = n_model;
  if (!by_id_.empty() && (end_id_ > n_model || n_model == 0)) next = end_id_;
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    if (const auto known = ids_.find(token.content); known != ids_.end() && by_id_.at(known->second) == token) continue;
    TokenId id = find(token.content);
    if (id == kNoToken) id = next++;
    ids_[token.content] = id;
    by_id_[id] = token;
    end_id_ = std::max(end_id_, id + 1);
    if (!special_.contains(token.content)) other_order_.push_back(token);
  }
}

TokenId AddedTokens::find(std::string_view content) const {
  if (const auto known = ids_.find(std::string(content)); known != ids_.end()) return known->second;
  return model_ == nullptr ? kNoToken : model_->vocabulary().find(content);
}

const AddedToken* AddedTokens::token(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &found->second;
}

void AddedTokens::prepare(const Normalize& normalize) {
  std::vector<std::pair<std::string, TokenId>> raw, normalized;
  for (const auto* order : {&special_order_, &other_order_}) {
    for (const AddedToken& token : *order) {
      const TokenId id = find(token.content);
      if (id == kNoToken || !by_id_.contains(id)) continue;
      if (token.normalized) {
        normalized.emplace_back(normalize(token.content), id);
      } else {
        raw.emplace_back(token.content, id);
      }
    }
  }
  raw_ = make_matcher(raw);
  normalized_ = make_matcher(normalized);
}

AddedTokens::Matcher AddedTokens::make_matcher(const std::vector<std::pair<std::string, TokenId>>& contents) {
  Matcher matcher;
  // The first of equal contents wins; the trie keeps the last.
  std::vector<std::pair<std::string_view, int32_t>> strings;
  for (auto content = contents.rbegin(); content != contents.rend(); ++content) {
    if (content->first.empty()) {
      matcher.empty = content->second;
    } else {
      strings.emplace_back(content->first, content->second);
    }
  }
  int n_starts = 0;
  for (const auto& [content, id] : strings) {
    bool& start = matcher.starts[static_cast<uint8_t>(content[0])];
    n_starts += start ? 0 : 1;
    start = true;
    matcher.only_start = static_cast<uint8_t>(content[0]);
  }
  if (n_starts != 1) matcher.only_start = -1;
  matcher.trie = Trie::build(std::move(strings));
  return matcher;
}

AddedTokens::Match AddedTokens::next_match(const Matcher& matcher, std::string_view text, const Match& last) {
  for (size_t at = last.end; at < text.size(); ++at) {
    if (matcher.empty == kNoToken && matcher.only_start >= 0) {
      const void* found = std::memchr(text.data() + at, matcher.only_start, text.size() - at);
      if (found == nullptr) return {};
      at = static_cast<size_t>(static_cast<const char*>(found) - text.data());
    } else if (matcher.empty == kNoToken && !matcher.starts[static_cast<uint8_t>(text[at])]) {
      continue;
    }
    Match match;
    Trie::Node node = Trie::kRoot;
    for (size_t end = at; end < text.size();) {
      node = matcher.trie.step(node, static_cast<uint8_t>(text[end++]));
      if (node == Trie::kDead) break;
      if (matcher.trie.value(node) != Trie::kNoValue) match = {matcher.trie.value(node), at, end};
    }
    if (match.id != kNoToken) return match;
    const bool after_last = last.id != kNoToken && at == last.end;
    if (matcher.empty != kNoToken && !after_last && utf8::begins_character(text[at])) return {matcher.empty, at, at};
  }
  const bool at_end = matcher.empty != kNoToken && !text.empty() && (last.id == kNoToken || last.end < text.size());
  return at_end ? Match{matcher.empty, text.size(), text.size()} : Match();
}

bool AddedTokens::fit(Match& match, std::string_view text, size_t done) const {
  const AddedToken& token = by_id_.at(match.id);
  if (token.single_word) {
    if (match.begin > 0 && unicode::is_word(character_before(text, match.begin))) return false;
    if (match.end < text.size() && unicode::is_word(character_at(text, match.end))) return false;
  }
  if (token.lstrip) {
    size_t begin = match.begin;
    while (begin > done && unicode::is_white_space(character_before(text, begin))) {
      do { --begin; } while (!utf8::begins_character(text[begin]));
    }
    match.begin = std::max(begin, done);
  }
  if (token.rstrip) {
    while (match.end < text.size() && unicode::is_white_space(character_at(text, match.end))) match.end += utf8::size_of(text[match.end]);
  }
  return true;
}

}  // namespace kvik::text
