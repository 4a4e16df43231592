#include "constrain/notation/char_dfa.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <unordered_map>

#include "base/utf8.h"
#include "constrain/limits.h"
#include "kvik/error.h"

namespace kvik::constrain {
namespace {

constexpr size_t kMostCells = size_t{1} << 24;  // states times classes

[[noreturn]] void fail_too_large(std::string_view what) {
  throw Error(Code::kBadArgument, fmt::format("the {} needs more than {} states; simplify it", what, kMostPatternStates));
}

}  // namespace

size_t CharDfa::class_of(char32_t c) const { return static_cast<size_t>(std::ranges::upper_bound(cuts_, c) - cuts_.begin()) - 1; }

// Empty if there are only surrogates between two cuts.
CharSet CharDfa::set_of_class(size_t c) const { return CharSet({{cuts_[c], c + 1 < n_classes() ? cuts_[c + 1] - 1 : kLastChar}}); }

uint32_t CharDfa::add_state(bool accepting) {
  if (n_states() >= kMostPatternStates || next_.size() + n_classes() > kMostCells) fail_too_large("pattern");
  accepting_.push_back(accepting);
  next_.resize(next_.size() + n_classes(), kDead);
  return static_cast<uint32_t>(n_states() - 1);
}

// The subset construction. ^ can be passed before the first character only, and $ if none follows.
class PatternSubsets {
 public:
  PatternSubsets(const PatternNfa& nfa, std::string_view what, bool anywhere) : nfa_(nfa), what_(what), anywhere_(anywhere) {
    by_state_.resize(nfa.n_states);
    for (const PatternNfa::Edge& edge : nfa.edges) by_state_[edge.from].push_back(edge);
    seen_.assign(nfa.n_states, 0);
  }

  CharDfa run() {
    find_cuts();
    number_of({0}, true);
    for (size_t i = 0; i < sets_.size(); ++i) expand(i);
    return std::move(dfa_);
  }

 private:
  using Set = std::vector<uint32_t>;

  void find_cuts() {
    std::vector<char32_t> cuts = {0};
    for (const CharSet& set : nfa_.sets) {
      for (const CharRange& range : set.ranges()) {
        cuts.push_back(range.first);
        if (range.last < kLastChar) cuts.push_back(range.last + 1);
      }
    }
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    dfa_.cuts_ = std::move(cuts);
    for (const CharSet& set : nfa_.sets) {
      std::vector<bool>& classes = classes_.emplace_back(dfa_.cuts_.size());
      for (size_t i = 0; i < classes.size(); ++i) classes[i] = set.contains(dfa_.cuts_[i]);
    }
  }

  // Sorted; whether the end is reached.
  bool close(Set& set, bool at_start, bool at_end) {
    ++round_;
    for (const uint32_t state : set) seen_[state] = round_;
    bool ends = false;
    for (size_t i = 0; i < set.size(); ++i) {
      ends |= set[i] == 1;
      for (const PatternNfa::Edge& edge : by_state_[set[i]]) {
        if (++work_ > kMostPatternWork) fail_too_large(what_);
        const bool passes = edge.kind == PatternNfa::Kind::kEmpty || (edge.kind == PatternNfa::Kind::kAtStart && at_start) ||
                            (edge.kind == PatternNfa::Kind::kAtEnd && at_end);
        if (!passes || seen_[edge.to] == round_) continue;
        seen_[edge.to] = round_;
        set.push_back(edge.to);
      }
    }
    return ends;
  }

  uint32_t number_of(Set set, bool at_start) {
    if (anywhere_ && std::ranges::find(set, 0u) == set.end()) set.push_back(0);  // a match may begin here
    const bool matched = close(set, at_start, false);
    if (anywhere_ && matched) set = {1};  // any text may follow
    Set at_end = set;
    const bool accepting = close(at_end, at_start, true);
    std::ranges::sort(set);
    Set key = set;
    key.push_back(accepting ? 1 : 0);
    const auto [place, is_new] = numbers_.try_emplace(std::move(key), static_cast<uint32_t>(sets_.size()));
    if (is_new) {
      if (sets_.size() >= kMostPatternStates) fail_too_large(what_);
      sets_.push_back(std::move(set));
      dfa_.add_state(accepting);
    }
    return place->second;
  }

  void expand(size_t number) {
    const bool all_follows = anywhere_ && sets_[number] == Set{1};
    const Set set = sets_[number];
    for (size_t c = 0; c < dfa_.n_classes(); ++c) {
      Set to;
      if (all_follows) to = {1};
      for (const uint32_t state : set) {
        for (const PatternNfa::Edge& edge : by_state_[state]) {
          if (++work_ > kMostPatternWork) fail_too_large(what_);
          if (edge.kind == PatternNfa::Kind::kChars && classes_[edge.set][c]) to.push_back(edge.to);
        }
      }
      std::ranges::sort(to);
      to.erase(std::unique(to.begin(), to.end()), to.end());
      if (to.empty() && !anywhere_) continue;
      const uint32_t next = number_of(std::move(to), false);
      dfa_.next_[number * dfa_.n_classes() + c] = next;
    }
  }

  const PatternNfa& nfa_;
  std::string_view what_;
  bool anywhere_;
  CharDfa dfa_;
  std::vector<std::vector<PatternNfa::Edge>> by_state_;
  std::vector<std::vector<bool>> classes_;  // of each set
  std::map<Set, uint32_t> numbers_;
  std::vector<Set> sets_;
  std::vector<uint32_t> seen_;
  uint32_t round_ = 0;
  size_t work_ = 0;
};

CharDfa CharDfa::of_whole(const PatternNfa& nfa, std::string_view what) { return PatternSubsets(nfa, what, false).run(); }
CharDfa CharDfa::of_part(const PatternNfa& nfa, std::string_view what) { return PatternSubsets(nfa, what, true).run(); }

CharDfa CharDfa::of_texts(std::vector<std::string> texts) {
  CharDfa dfa;
  for (const std::string& text : texts) {
    for (const char* p = text.data(); p != text.data() + text.size();) {
      const char32_t c = utf8::next(p);
      dfa.cuts_.push_back(c);
      if (c < kLastChar) dfa.cuts_.push_back(c + 1);
    }
  }
  std::ranges::sort(dfa.cuts_);
  dfa.cuts_.erase(std::unique(dfa.cuts_.begin(), dfa.cuts_.end()), dfa.cuts_.end());
  dfa.add_state(false);
  for (const std::string& text : texts) {
    uint32_t state = 0;
    for (const char* p = text.data(); p != text.data() + text.size();) {
      const size_t cell = state * dfa.n_classes() + dfa.class_of(utf8::next(p));
      if (dfa.next_[cell] == kDead) {
        const uint32_t added = dfa.add_state(false);
        dfa.next_[cell] = added;
      }
      state = dfa.next_[cell];
    }
    dfa.accepting_[state] = true;
  }
  return dfa;
}

CharDfa CharDfa::of_multiples(uint32_t of, uint32_t n_decimals) {
  constexpr uint32_t kPoint = 1, kDigits = 3;  // classes of characters: others, ".", others, "0", "1", …
  CharDfa dfa;
  dfa.cuts_ = {0, '.', '.' + 1};
  for (char32_t c = '0'; c <= '9' + 1; ++c) dfa.cuts_.push_back(c);
  uint64_t missing = 1;  // 10^(digits that may still follow the point)
  for (uint32_t i = 0; i < n_decimals; ++i) missing *= 10;
  dfa.add_state(false);                       // nothing yet
  const uint32_t zero = dfa.add_state(true);  // a point may follow, and no digit
  // Rows of states by the rest of what was read: before the point, behind it, after each digit behind it.
  const auto state_of = [&](uint32_t row, uint64_t rest) { return static_cast<uint32_t>(2 + row * of + rest % of); };
  for (uint32_t row = 0; row <= (n_decimals == 0 ? 0 : n_decimals + 1); ++row) {
    for (uint64_t rest = 0; rest < of; ++rest) dfa.add_state(row != 1 && rest * missing % of == 0);
    missing /= row >= 1 ? 10 : 1;
  }
  const auto connect = [&](uint32_t from, uint32_t char_class, uint32_t to) { dfa.next_[from * dfa.n_classes() + char_class] = to; };
  for (uint32_t digit = 0; digit < 10; ++digit) {
    connect(0, kDigits + digit, digit == 0 ? zero : state_of(0, digit));
    for (uint32_t rest = 0; rest < of; ++rest) {
      connect(state_of(0, rest), kDigits + digit, state_of(0, uint64_t{rest} * 10 + digit));
      for (uint32_t row = 1; row <= n_decimals; ++row)
        connect(state_of(row, rest), kDigits + digit, state_of(row + 1, uint64_t{rest} * 10 + digit));
    }
  }
  if (n_decimals == 0) return dfa;
  connect(zero, kPoint, state_of(1, 0));
  for (uint32_t rest = 0; rest < of; ++rest) connect(state_of(0, rest), kPoint, state_of(1, rest));
  return dfa;
}

CharDfa CharDfa::of_lengths(int least, int most) {
  CharDfa dfa;
  const int last = most == kNoLimit ? least : most;
  for (int n = 0; n <= last; ++n) dfa.add_state(n >= least);
  for (int n = 0; n < last; ++n) dfa.next_[static_cast<size_t>(n)] = static_cast<uint32_t>(n + 1);
  if (most == kNoLimit) dfa.next_[static_cast<size_t>(last)] = static_cast<uint32_t>(last);
  return dfa;
}

CharDfa CharDfa::intersect(const CharDfa& other) const {
  std::optional<CharDfa> both = try_intersect(other, kMostPatternStates);
  if (!both) fail_too_large("pattern");
  return std::move(*both);
}

std::optional<CharDfa> CharDfa::try_intersect(const CharDfa& other, size_t most_states) const {
  CharDfa both;
  both.cuts_.insert(both.cuts_.end(), cuts_.begin(), cuts_.end());
  both.cuts_.insert(both.cuts_.end(), other.cuts_.begin(), other.cuts_.end());
  std::ranges::sort(both.cuts_);
  both.cuts_.erase(std::unique(both.cuts_.begin(), both.cuts_.end()), both.cuts_.end());
  std::vector<std::pair<size_t, size_t>> classes;
  for (const char32_t cut : both.cuts_) classes.emplace_back(class_of(cut), other.class_of(cut));
  std::unordered_map<uint64_t, uint32_t> numbers;
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  bool fits = true;
  const auto number_of = [&](uint32_t a, uint32_t b) {
    const auto [place, is_new] = numbers.try_emplace(uint64_t{a} << 32 | b, static_cast<uint32_t>(pairs.size()));
    if (!is_new) return place->second;
    fits &= pairs.size() < most_states && (pairs.size() + 1) * both.n_classes() <= kMostCells;
    if (!fits) return kDead;
    pairs.emplace_back(a, b);
    return both.add_state(accepting_[a] && other.accepting_[b]);
  };
  number_of(0, 0);
  for (size_t i = 0; i < pairs.size() && fits; ++i) {
    const auto [a, b] = pairs[i];
    for (size_t c = 0; c < classes.size(); ++c) {
      const uint32_t to_a = next(a, classes[c].first), to_b = other.next(b, classes[c].second);
      if (to_a == kDead || to_b == kDead) continue;
      const uint32_t to = number_of(to_a, to_b);
      both.next_[i * both.n_classes() + c] = to;
    }
  }
  if (!fits) return std::nullopt;
  return both;
}

CharDfa CharDfa::complement() const {
  CharDfa other = *this;
  const uint32_t sink = other.add_state(false);
  for (uint32_t& to : other.next_) to = to == kDead ? sink : to;
  other.accepting_.flip();
  return other;
}

std::vector<bool> CharDfa::live_states() const {
  std::vector<std::vector<uint32_t>> from(n_states());
  std::vector<bool> live = accepting_;
  std::vector<uint32_t> stack;
  for (uint32_t state = 0; state < n_states(); ++state) {
    for (size_t c = 0; c < n_classes(); ++c) {
      const uint32_t to = next(state, c);
      if (to != kDead && !set_of_class(c).empty() && (from[to].empty() || from[to].back() != state)) from[to].push_back(state);
    }
    if (live[state]) stack.push_back(state);
  }
  while (!stack.empty()) {
    const uint32_t state = stack.back();
    stack.pop_back();
    for (const uint32_t before : from[state]) {
      if (live[before]) continue;
      live[before] = true;
      stack.push_back(before);
    }
  }
  return live;
}

bool CharDfa::is_empty() const { return !live_states()[0]; }

int CharDfa::longest() const {
  const std::vector<bool> live = live_states();
  if (!live[0]) return 0;
  // States in the order in which all states before them are done; those on a cycle never are.
  std::vector<std::vector<uint32_t>> after(n_states());
  std::vector<size_t> n_before(n_states(), 0);
  for (uint32_t state = 0; state < n_states(); ++state) {
    for (size_t c = 0; live[state] && c < n_classes(); ++c) {
      const uint32_t to = next(state, c);
      if (to == kDead || !live[to] || set_of_class(c).empty() || (!after[state].empty() && after[state].back() == to)) continue;
      after[state].push_back(to);
      ++n_before[to];
    }
  }
  std::vector<int> length(n_states(), 0);
  std::vector<uint32_t> done;
  if (n_before[0] == 0) done.push_back(0);
  for (size_t i = 0; i < done.size(); ++i) {
    for (const uint32_t to : after[done[i]]) {
      length[to] = std::max(length[to], length[done[i]] + 1);
      if (--n_before[to] == 0) done.push_back(to);
    }
  }
  const auto n_live = static_cast<size_t>(std::ranges::count(live, true));
  return done.size() < n_live ? kNoLimit : *std::ranges::max_element(length);
}

bool CharDfa::matches(std::string_view text) const {
  uint32_t state = 0;
  for (const char* p = text.data(); p != text.data() + text.size();) {
    state = next(state, class_of(utf8::next(p)));
    if (state == kDead) return false;
  }
  return accepting_[state];
}

NodeId CharDfa::to_node(Grammar& grammar, const std::function<NodeId(const CharSet&)>& char_node) const {
  const std::vector<bool> live = live_states();
  if (!live[0]) return grammar.never();
  Graph graph;
  graph.n_states = static_cast<uint32_t>(n_states());
  for (uint32_t state = 0; state < n_states(); ++state) {
    if (!live[state]) continue;
    if (accepting_[state]) graph.accepting.push_back(state);
    std::map<uint32_t, std::vector<CharRange>> ranges;
    for (size_t c = 0; c < n_classes(); ++c) {
      const uint32_t to = next(state, c);
      if (to == kDead || !live[to]) continue;
      const CharSet set = set_of_class(c);
      ranges[to].insert(ranges[to].end(), set.ranges().begin(), set.ranges().end());
    }
    for (auto& [to, of] : ranges) {
      if (!of.empty()) graph.edges.push_back({state, to, char_node(CharSet(std::move(of)))});
    }
  }
  return grammar.graph(std::move(graph));
}

NodeId CharDfa::to_node(Grammar& grammar) const {
  return to_node(grammar, [&](const CharSet& set) { return grammar.chars(set); });
}

}  // namespace kvik::constrain
