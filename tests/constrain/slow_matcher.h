#pragma once

#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "constrain/grammar.h"

namespace kvik::constrain {

// Matches texts by the definition of a grammar: which positions a node can end at, and whether it can go on past the end of the text.
// Shares nothing with the automaton. Every rule must have a match, and none may be left-recursive.
class SlowMatcher {
 public:
  SlowMatcher(const Grammar& grammar, std::string_view text) : grammar_(grammar), text_(text) {
    const std::set<size_t> ends = match_rule(grammar.root(), {0});
    complete_ = ends.contains(text.size());
  }
  bool complete() const { return complete_; }
  bool begins_match() const { return complete_ || goes_on_; }

 private:
  using Places = std::set<size_t>;

  Places match_rule(RuleId rule, const Places& from) { return match(grammar_.rules()[rule].body, from); }

  Places match(NodeId id, const Places& from) {
    Places to;
    for (const size_t place : from) {
      const auto known = known_.find({id, place});
      const Places found = known != known_.end() ? known->second : (known_[{id, place}] = match_at(id, place));
      to.insert(found.begin(), found.end());
    }
    return to;
  }

  Places match_at(NodeId id, size_t at) {
    const Grammar::Node& node = grammar_.node(id);
    switch (node.kind) {
      case Grammar::Kind::kBytes: return match_bytes(grammar_.bytes_of(node), at);
      case Grammar::Kind::kChars: return match_chars(grammar_.chars_of(node), at);
      case Grammar::Kind::kRule: return match_rule(node.index, {at});
      case Grammar::Kind::kGraph: return {};  // not used by the notations that are tested with it
      case Grammar::Kind::kChoice: {
        Places to;
        for (const NodeId option : node.children) to.merge(match(option, {at}));
        return to;
      }
      case Grammar::Kind::kSequence: {
        Places to = {at};
        for (const NodeId part : node.children) to = match(part, to);
        return to;
      }
      case Grammar::Kind::kRepeat: break;
    }
    Places to, now = {at};
    if (node.least == 0) to.insert(at);
    for (int i = 1; (node.most < 0 || i <= node.most) && !now.empty(); ++i) {
      now = match(node.children.front(), now);
      const size_t n = to.size();
      if (i >= node.least) to.insert(now.begin(), now.end());
      if (i > node.least + 1 && to.size() == n && node.most < 0) break;
    }
    return to;
  }

  Places match_bytes(std::string_view bytes, size_t at) {
    const std::string_view rest = text_.substr(at);
    if (rest.starts_with(bytes)) return {at + bytes.size()};
    if (bytes.starts_with(rest)) goes_on_ = true;
    return {};
  }

  Places match_chars(const CharSet& set, size_t at) {
    Places to;
    for (const CharRange& range : set.ranges()) {
      for (char32_t c = range.first; c <= range.last && c - range.first < 300; ++c) {
        std::string bytes;
        append_utf8(bytes, c);
        to.merge(match_bytes(bytes, at));
      }
    }
    return to;
  }

  static void append_utf8(std::string& out, char32_t c) {
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += static_cast<char>(0xC0 | (c >> 6));
      out += static_cast<char>(0x80 | (c & 0x3F));
    } else {
      out += static_cast<char>(0xE0 | (c >> 12));
      out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
      out += static_cast<char>(0x80 | (c & 0x3F));
    }
  }

  const Grammar& grammar_;
  std::string_view text_;
  std::map<std::pair<NodeId, size_t>, Places> known_;
  bool complete_ = false, goes_on_ = false;
};

}  // namespace kvik::constrain
