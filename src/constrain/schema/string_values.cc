#include "constrain/schema/string_values.h"

#include "constrain/limits.h"
#include "constrain/notation/lookahead.h"

namespace kvik::constrain {
namespace {

constexpr size_t kMostShortenedStates = kMostPatternStates / 4;

std::string name_of(const StringPattern& pattern) { return "pattern at " + pattern.where + " of the JSON schema"; }

// Texts of which a part matches in one dialect or in both.
CharDfa texts_with(const std::string& pattern, bool in_either, const std::string& what) {
  return CharDfa::of_part(parse_pattern(pattern, what, in_either ? Dialects::kEither : Dialects::kBoth), what);
}

}  // namespace

CharDfa dfa_of(const StringPattern& pattern) {
  const std::string what = name_of(pattern);
  if (pattern.whole) {
    const CharDfa dfa = CharDfa::of_whole(parse_pattern(pattern.pattern, what), what);
    return pattern.negated ? dfa.complement() : dfa;
  }
  const SplitPattern split = split_lookahead(pattern.pattern);
  CharDfa all = texts_with(split.rest, pattern.negated, what);
  for (const Lookahead& condition : split.conditions) {
    const CharDfa texts = texts_with(condition.pattern, condition.negated != pattern.negated, what);
    all = all.intersect(condition.negated ? texts.complement() : texts);
  }
  return pattern.negated ? all.complement() : all;
}

void check_pattern(const StringPattern& pattern) {
  const std::string what = name_of(pattern);
  const SplitPattern split = split_lookahead(pattern.pattern);
  parse_pattern(split.rest, what);
  for (const Lookahead& condition : split.conditions) parse_pattern(condition.pattern, what);
}

CharDfa string_values(const Shape& shape) {
  CharDfa values = CharDfa::of_lengths(shape.min_length, shape.max_length);
  for (const StringPattern& pattern : shape.patterns) values = values.intersect(dfa_of(pattern));
  return values;
}

CharDfa strings_to_write(const Shape& shape) {
  std::vector<CharDfa> patterns;
  for (const StringPattern& pattern : shape.patterns) patterns.push_back(dfa_of(pattern));
  const bool fits =
      patterns.size() == 1 && shape.min_length == 0 && patterns[0].longest() != kNoLimit && patterns[0].longest() <= shape.max_length;
  if (fits) return std::move(patterns[0]);
  const auto values_up_to = [&](int most, size_t most_states) {
    std::optional<CharDfa> values = CharDfa::of_lengths(shape.min_length, most);
    for (const CharDfa& pattern : patterns) values = values ? values->try_intersect(pattern, most_states) : std::nullopt;
    return values;
  };
  if (std::optional<CharDfa> all = values_up_to(shape.max_length, kMostPatternStates)) return std::move(*all);
  for (int most = shape.max_length / 2; most > shape.min_length; most /= 2) {
    std::optional<CharDfa> some = values_up_to(most, kMostShortenedStates);
    if (some && !some->is_empty()) return std::move(*some);
  }
  return string_values(shape);  // throws
}

}  // namespace kvik::constrain
