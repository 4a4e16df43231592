#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

#include "constrain/limits.h"
#include "constrain/rule_automaton.h"
#include "kvik/error.h"

namespace kvik::constrain {
namespace {

constexpr size_t kMostWork = 6'000'000;  // states put into sets, for one rule
constexpr size_t kMostGrowth = 4;        // of deterministic automata

using Set = std::vector<uint32_t>;

struct SetHash {
  size_t operator()(const Set& set) const {
    uint64_t hash = 0xcbf29ce484222325;
    for (const uint32_t state : set) hash = (hash ^ state) * 0x100000001b3 ^ (hash >> 29);
    return hash;
  }
};

// An automaton with its edges by state, and epsilon closures.
class Closures {
 public:
  explicit Closures(const RuleNfa& nfa) : nfa_(nfa), first_(nfa.n_states + 1, 0), seen_(nfa.n_states, 0) {
    for (const RuleNfa::Edge& edge : nfa.edges) ++first_[edge.from + 1];
    for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    sorted_.resize(nfa.edges.size());
    std::vector<uint32_t> at(first_.begin(), first_.end() - 1);
    for (const RuleNfa::Edge& edge : nfa.edges) sorted_[at[edge.from]++] = edge;
  }

  std::span<const RuleNfa::Edge> edges(uint32_t state) const {
    return std::span(sorted_).subspan(first_[state], first_[state + 1] - first_[state]);
  }

  // Sorted; without states that have nothing but empty edges. Returns whether the end is among what is reached.
  bool close(std::span<const uint32_t> from, Set& closed) {
    ++round_;
    bool at_end = false;
    stack_.assign(from.begin(), from.end());
    for (const uint32_t state : from) seen_[state] = round_;
    closed.clear();
    while (!stack_.empty()) {
      const uint32_t state = stack_.back();
      stack_.pop_back();
      at_end |= state == nfa_.end;
      bool reads = false;
      for (const RuleNfa::Edge& edge : edges(state)) {
        ++work_;
        if (edge.kind != RuleNfa::Kind::kEmpty) {
          reads = true;
        } else if (seen_[edge.to] != round_) {
          seen_[edge.to] = round_;
          stack_.push_back(edge.to);
        }
      }
      if (reads) closed.push_back(state);
    }
    std::ranges::sort(closed);
    return at_end;
  }

  bool is_too_much() const { return work_ > kMostWork; }
  void add_work(size_t n) { work_ += n; }

 private:
  const RuleNfa& nfa_;
  std::vector<uint32_t> first_;
  std::vector<RuleNfa::Edge> sorted_;
  std::vector<uint32_t> seen_;
  std::vector<uint32_t> stack_;
  uint32_t round_ = 0;
  size_t work_ = 0;
};

// States of the result are numbered as they are found; what is to be done for them is in `pending`.
class SubsetConstruction {
 public:
  explicit SubsetConstruction(const RuleNfa& nfa) : nfa_(nfa), closures_(nfa) {}

  bool run(size_t most_states, RuleAutomaton& out) {
    out.states.clear();
    const uint32_t start[] = {nfa_.start};
    number_of(start, out);
    for (size_t i = 0; i < sets_.size(); ++i) {
      if (sets_.size() > most_states || closures_.is_too_much()) return false;
      expand(static_cast<uint32_t>(i), out);
    }
    return true;
  }

 private:
  uint32_t number_of(std::span<const uint32_t> kernel, RuleAutomaton& out) {
    const bool accepting = closures_.close(kernel, closed_);
    Set key = closed_;
    key.push_back(accepting ? 1 : 0);
    const auto [place, is_new] = numbers_.try_emplace(std::move(key), static_cast<uint32_t>(sets_.size()));
    if (is_new) {
      sets_.push_back(&place->first);
      out.states.emplace_back().accepting = accepting;
    }
    return place->second;
  }

  void expand(uint32_t number, RuleAutomaton& out) {
    bytes_.clear();
    calls_.clear();
    const Set& set = *sets_[number];
    for (size_t i = 0; i + 1 < set.size(); ++i) {
      for (const RuleNfa::Edge& edge : closures_.edges(set[i])) {
        if (edge.kind == RuleNfa::Kind::kBytes) bytes_.push_back(edge);
        if (edge.kind == RuleNfa::Kind::kCall) calls_.push_back(edge);
      }
    }
    expand_bytes(number, out);
    expand_calls(number, out);
  }

  void expand_bytes(uint32_t number, RuleAutomaton& out) {
    bool cuts[257] = {};
    for (const RuleNfa::Edge& edge : bytes_) cuts[edge.first] = cuts[edge.last + 1] = true;
    if (bytes_.empty()) return;
    std::ranges::sort(bytes_, {}, &RuleNfa::Edge::first);
    std::vector<RuleAutomaton::Edge> found;
    for (int first = 0; first < 256;) {
      int next = first + 1;
      while (next < 256 && !cuts[next]) ++next;
      targets_.clear();
      for (const RuleNfa::Edge& edge : bytes_) {
        if (edge.first > first) break;
        if (edge.last >= first) targets_.push_back(edge.to);
      }
      closures_.add_work(bytes_.size() / 16);
      if (!targets_.empty()) {
        const uint32_t to = number_of(unique_targets(), out);
        if (!found.empty() && found.back().to == to && found.back().last + 1 == first) {
          found.back().last = static_cast<uint8_t>(next - 1);
        } else {
          found.push_back({static_cast<uint8_t>(first), static_cast<uint8_t>(next - 1), to});
        }
      }
      first = next;
    }
    out.states[number].edges = std::move(found);
  }

  void expand_calls(uint32_t number, RuleAutomaton& out) {
    std::ranges::sort(calls_, {}, &RuleNfa::Edge::rule);
    std::vector<RuleAutomaton::Call> found;
    for (size_t i = 0; i < calls_.size();) {
      targets_.clear();
      const RuleId rule = calls_[i].rule;
      for (; i < calls_.size() && calls_[i].rule == rule; ++i) targets_.push_back(calls_[i].to);
      found.push_back({rule, number_of(unique_targets(), out)});
    }
    out.states[number].calls = std::move(found);
  }

  std::span<const uint32_t> unique_targets() {
    std::ranges::sort(targets_);
    targets_.erase(std::unique(targets_.begin(), targets_.end()), targets_.end());
    return targets_;
  }

  const RuleNfa& nfa_;
  Closures closures_;
  std::unordered_map<Set, uint32_t, SetHash> numbers_;
  std::vector<const Set*> sets_;  // the states, then whether it accepts
  Set closed_, targets_;
  std::vector<RuleNfa::Edge> bytes_, calls_;
};

// Every state gets the edges of its epsilon closure.
RuleAutomaton remove_empty_edges(const RuleNfa& nfa) {
  Closures closures(nfa);
  RuleAutomaton out;
  std::vector<uint32_t> numbers(nfa.n_states, UINT32_MAX), found = {nfa.start};
  numbers[nfa.start] = 0;
  const auto number_of = [&](uint32_t state) {
    if (numbers[state] == UINT32_MAX) {
      numbers[state] = static_cast<uint32_t>(found.size());
      found.push_back(state);
    }
    return numbers[state];
  };
  Set closed;
  for (size_t i = 0; i < found.size(); ++i) {
    if (closures.is_too_much())
      throw Error(Code::kBadArgument,
                  "the constraint is too ambiguous: too many of its parts can match the same text; simplify what it repeats");
    const uint32_t from[] = {found[i]};
    RuleAutomaton::State state;
    state.accepting = closures.close(from, closed);
    closures.add_work(closed.size());
    for (const uint32_t reached : closed) {
      for (const RuleNfa::Edge& edge : closures.edges(reached)) {
        if (edge.kind == RuleNfa::Kind::kBytes) state.edges.push_back({edge.first, edge.last, number_of(edge.to)});
        if (edge.kind == RuleNfa::Kind::kCall) state.calls.push_back({edge.rule, number_of(edge.to)});
      }
    }
    std::ranges::sort(state.edges, {}, &RuleAutomaton::Edge::first);
    out.states.push_back(std::move(state));
  }
  return out;
}

}  // namespace

RuleAutomaton without_empty_edges(const RuleNfa& nfa) {
  RuleAutomaton out;
  if (SubsetConstruction(nfa).run(kMostGrowth * nfa.n_states + 256, out)) return out;
  return remove_empty_edges(nfa);
}

}  // namespace kvik::constrain
