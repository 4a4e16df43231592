#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/token.h"
#include "text/models/model.h"
#include "text/models/trie.h"

namespace kvik::text {

struct AddedToken {
  std::string content;
  bool single_word = false;  // only as a whole word
  bool lstrip = false;       // includes white space before it
  bool rstrip = false;
  bool normalized = true;  // matched in the normalized text, by its normalized content
  bool special = false;
  bool operator==(const AddedToken&) const = default;
};

// Tokens that are matched in a text before the model runs. Filled once, then read by any thread.
class AddedTokens {
 public:
  using Normalize = std::function<std::string(std::string_view)>;

  // A token in the model's vocabulary keeps its id, others get the next free one. A token that is added again gets the new properties.
  void add(const std::vector<AddedToken>& tokens, const Model& model);
  // Call after the last add(), before find_*().
  void prepare(const Normalize& normalize);

  TokenId find(std::string_view content) const;
  // Null if the id is not an added token.
  const AddedToken* token(TokenId id) const;
  bool is_special(std::string_view content) const { return special_.contains(std::string(content)); }
  bool empty() const { return by_id_.empty(); }
  TokenId end_id() const { return end_id_; }
  const std::unordered_map<TokenId, AddedToken>& all() const { return by_id_; }

  // Calls f(id, begin, end) for every part of `text` in order; id is kNoToken between the tokens.
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
    int only_start = -1;       // if all begin with the same byte
    TokenId empty = kNoToken;  // a token whose normalized content is empty: it matches between all characters
    bool is_empty() const { return trie.empty() && empty == kNoToken; }
  };
  struct Match {
    TokenId id = kNoToken;
    size_t begin = 0, end = 0;
  };

  static Matcher make_matcher(const std::vector<std::pair<std::string, TokenId>>& contents);
  // The leftmost-longest match after `last`; id kNoToken if there is none.
  static Match next_match(const Matcher& matcher, std::string_view text, const Match& last);
  // Extends the match by white space; false if it is not allowed here.
  bool fit(Match& match, std::string_view text, size_t done) const;

  template <class F>
  void find_in(const Matcher& matcher, std::string_view text, F&& f) const {
    size_t done = 0;
    for (Match last = matcher.is_empty() ? Match() : next_match(matcher, text, {}); last.id != kNoToken;
         last = next_match(matcher, text, last)) {
      Match match = last;  // white space that a token includes can still begin the next one
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
