#include "constrain/notation/lookahead.h"

#include <optional>

namespace kvik::constrain {
namespace {

// The position after the group that begins here; nothing if it is not closed. `splits`: whether there is an alternative (|) outside of
// groups before the end of the text.
std::optional<size_t> end_of_group(std::string_view text, size_t begin, bool& splits) {
  int depth = 0;
  bool in_class = false;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')') {
      if (--depth == 0) return i + 1;
    } else if (c == '|' && depth == 0) {
      splits = true;
    }
  }
  return std::nullopt;
}

bool has_choice(std::string_view text) {
  bool splits = false;
  for (size_t at = 0; at < text.size() && !splits;) at = end_of_group(text, at, splits).value_or(text.size());
  return splits;
}

}  // namespace

SplitPattern split_lookahead(std::string_view pattern) {
  SplitPattern split{std::string(pattern), {}};
  std::string_view rest = pattern;
  if (!rest.starts_with('^')) return split;
  rest.remove_prefix(1);
  std::vector<Lookahead> conditions;
  while (rest.starts_with("(?=") || rest.starts_with("(?!")) {
    bool ignored = false;
    const std::optional<size_t> end = end_of_group(rest, 0, ignored);
    if (!end) return split;
    const std::string_view follows = rest.substr(*end);
    if (follows.starts_with('*') || follows.starts_with('+') || follows.starts_with('?') || follows.starts_with('{')) return split;
    conditions.push_back({"^(?:" + std::string(rest.substr(3, *end - 4)) + ")", rest[2] == '!'});
    rest = follows;
  }
  if (conditions.empty() || has_choice(rest)) return split;
  return {"^" + std::string(rest), std::move(conditions)};
}

}  // namespace kvik::constrain
