#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "constrain/grammar.h"
#include "constrain/notation/pattern.h"

namespace kvik::constrain {

// A deterministic automaton over characters: a set of texts that can be intersected and complemented. State 0 is the start.
class CharDfa {
 public:
  static constexpr uint32_t kDead = UINT32_MAX;

  // Texts of which the whole, or a part, matches. Throws Error(kBadArgument) past a limit; `what` names the pattern.
  static CharDfa of_whole(const PatternNfa& nfa, std::string_view what);
  static CharDfa of_part(const PatternNfa& nfa, std::string_view what);
  static CharDfa of_texts(std::vector<std::string> texts);
  // Decimal numbers without a sign and without leading zeros that are multiples of `of` / 10^n_decimals.
  static CharDfa of_multiples(uint32_t of, uint32_t n_decimals = 0);
  // Texts with a number of characters in this range.
  static CharDfa of_lengths(int least, int most);

  CharDfa intersect(const CharDfa& other) const;
  std::optional<CharDfa> try_intersect(const CharDfa& other, size_t most_states) const;  // nothing if there would be more
  CharDfa complement() const;
  bool is_empty() const;
  int longest() const;  // number of characters of the longest text; kNoLimit if there is none
  bool matches(std::string_view text) const;

  // A grammar node that reads these texts; `char_node` returns the node that reads a character of a set.
  NodeId to_node(Grammar& grammar, const std::function<NodeId(const CharSet&)>& char_node) const;
  NodeId to_node(Grammar& grammar) const;

 private:
  friend class PatternSubsets;
  size_t n_states() const { return accepting_.size(); }
  size_t n_classes() const { return cuts_.size(); }
  uint32_t next(size_t state, size_t char_class) const { return next_[state * n_classes() + char_class]; }
  size_t class_of(char32_t c) const;
  CharSet set_of_class(size_t char_class) const;
  uint32_t add_state(bool accepting);
  std::vector<bool> live_states() const;

  std::vector<char32_t> cuts_ = {0};  // first characters of the classes
  std::vector<uint32_t> next_;        // [n_states][n_classes]
  std::vector<bool> accepting_;
};

}  // namespace kvik::constrain
