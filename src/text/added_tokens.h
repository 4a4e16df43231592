#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/token.h"
#include "text/model.h"
#include "text/trie.h"

namespace kvik::text {

struct AddedToken {
  std::string content;
  bool single_word = false;  // not within a word
  bool lstrip = false;       // swallows white space before it
  bool rstrip = false;
  bool normalized = true;  // looked for in the normalized text, as its own normalized content
  bool special = false;
  bool operator==(const AddedToken&) const = default;
};

// Tokens that are found in a text before the model sees it. Filled once, then read by any thread.
class AddedTokens {
 public:
  using Normalize = std::function<std::string(std::string_view)>;

  // A token that the model knows keeps its id, another gets the next free one. Given again with other properties it takes those.
  void add(const std::vector<AddedToken>& tokens, const Model& model);
  // Makes ready for find_*(), after the last add().
  void prepare(const Normalize& normalize);

  TokenId find(std::string_view content) const;
  // Null where the id is none of ours.
  const AddedToken* token(TokenId id) const;
  bool is_special(std::string_view content) const { return special_.contains(std::string(content)); }
  bool empty() const { return by_id_.empty(); }
  TokenId end_id() const { return end_id_; }
  const std::unordered_map<TokenId, AddedToken>& all() const { return by_id_; }

  // Calls f(id, begin, end) for every stretch of `text` in order; id is kNoToken between the tokens.
  template <class F>
  void find_raw(std::string_view text, F&& f) const {
    find_in(raw_, text, f);
  }
  template <class F>
  void find_normalized(std::string_view text, F&& f) const {
    find_in(normalized_, text, f);
  }

 private:
  struct Matcher {
    Trie trie;  // values are ids
    std::array<bool, 256> starts = {};
    int only_start = -1;       // where all begin with one byte
    TokenId empty = kNoToken;  // a token of which normalization left nothing: it stands between all characters
    bool is_empty() const { return trie.empty() && empty == kNoToken; }
  };
  struct Match {
    TokenId id = kNoToken;
    size_t begin = 0, end = 0;
  };

  static Matcher make_matcher(const std::vector<std::pair<std::string, TokenId>>& contents);
  // The leftmost match behind `last`, the longest of them; id kNoToken where there is none.
  static Match next_match(const Matcher& matcher, std::string_view text, const Match& last);
  // Widens the match by white space; false where it may not stand here.
  bool fit(Match& match, std::string_view text, size_t done) const;

  template <class F>
  void find_in(const Matcher& matcher, std::string_view text, F&& f) const {
    size_t done = 0;
    for (Match last = matcher.is_empty() ? Match() : next_match(matcher, text, {}); last.id != kNoToken;
         last = next_match(matcher, text, last)) {
      Match match = last;  // white space that a token swallows can still begin the next one
      if (!fit(match, text, done)) continue;
      if (done < match.begin) f(kNoToken, done, match.begin);
      if (match.begin < match.end) f(match.id, match.begin, match.end);
      done = match.end;
    }
    if (done < text.size()) f(kNoToken, done, text.size());
  }

  std::unordered_map<std::string, TokenId> ids_;
  std::unordered_map<TokenId, AddedToken> by_id_;
  std::vector<AddedToken> special_order_;
  std::vector<AddedToken> other_order_;
  std::unordered_set<std::string> special_;
  TokenId end_id_ = 0;
  const Model* model_ = nullptr;
  Matcher raw_;
  Matcher normalized_;
};

}  // namespace kvik::text
