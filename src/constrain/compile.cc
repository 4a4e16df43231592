#include <algorithm>
#include <fmt/format.h>

#include "constrain/automaton.h"
#include "constrain/limits.h"
#include "constrain/rule_automaton.h"
#include "kvik/error.h"

namespace kvik::constrain {
namespace {

// All rules in one numbering of states.
struct Joined {
  std::vector<RuleAutomaton> rules;
  std::vector<uint32_t> first_state;  // [n_rules + 1]
  std::vector<uint32_t> rule_of;      // [n_states]

  size_t n_states() const { return rule_of.size(); }
  const RuleAutomaton::State& state(uint32_t global) const {
    const uint32_t rule = rule_of[global];
    return rules[rule].states[global - first_state[rule]];
  }
};

Joined join(const Grammar& grammar) {
  Joined joined;
  RuleWriter writer(grammar);
  const size_t n_named = grammar.rules().size();
  size_t n_states = 0;
  for (size_t i = 0; i < n_named + writer.n_added(); ++i) {
    const NodeId body = i < n_named ? grammar.rules()[i].body : writer.added(i - n_named);
    joined.rules.push_back(without_empty_edges(writer.write(body)));
    joined.first_state.push_back(static_cast<uint32_t>(n_states));
    n_states += joined.rules.back().states.size();
    if (n_states > kMostStates) throw Error(Code::kBadArgument, fmt::format("the constraint needs more than {} states", kMostStates));
  }
  joined.first_state.push_back(static_cast<uint32_t>(n_states));
  joined.rule_of.resize(n_states);
  for (uint32_t rule = 0; rule < joined.rules.size(); ++rule)
    std::fill(joined.rule_of.begin() + joined.first_state[rule], joined.rule_of.begin() + joined.first_state[rule + 1], rule);
  return joined;
}

// Which states a rule reaches from its start, and which rules can accept, if only calls of rules that can accept return.
class Reach {
 public:
  // `with_bytes`: edges that read something can be passed too.
  Reach(const Joined& joined, bool with_bytes, const std::vector<uint8_t>* live = nullptr)
      : joined_(joined),
        with_bytes_(with_bytes),
        live_(live),
        reached_(joined.n_states(), 0),
        ends_(joined.rules.size(), 0),
        waiting_(joined.rules.size()) {
    for (uint32_t rule = 0; rule < joined.rules.size(); ++rule) add(joined.first_state[rule]);
    while (!stack_.empty()) {
      const uint32_t state = stack_.back();
      stack_.pop_back();
      visit(state);
    }
  }
  bool reached(uint32_t state) const { return reached_[state] != 0; }
  bool ends(RuleId rule) const { return ends_[rule] != 0; }

 private:
  void add(uint32_t state) {
    if (reached_[state] || (live_ != nullptr && !(*live_)[state])) return;
    reached_[state] = 1;
    stack_.push_back(state);
  }
  void visit(uint32_t global) {
    const uint32_t rule = joined_.rule_of[global], first = joined_.first_state[rule];
    const RuleAutomaton::State& state = joined_.state(global);
    for (size_t i = 0; with_bytes_ && i < state.edges.size(); ++i) add(first + state.edges[i].to);
    for (const RuleAutomaton::Call& call : state.calls) {
      if (ends_[call.rule]) {
        add(first + call.to);
      } else {
        waiting_[call.rule].push_back(first + call.to);
      }
    }
    if (!state.accepting || ends_[rule]) return;
    ends_[rule] = 1;
    for (const uint32_t to : waiting_[rule]) add(to);
  }

  const Joined& joined_;
  bool with_bytes_;
  const std::vector<uint8_t>* live_;
  std::vector<uint8_t> reached_, ends_;
  std::vector<std::vector<uint32_t>> waiting_;  // states behind calls of a rule that was not known to end
  std::vector<uint32_t> stack_;
};

// States that are reached and from which their rule's end can be reached.
std::vector<uint8_t> live_states(const Joined& joined, const Reach& reach) {
  const size_t n = joined.n_states();
  std::vector<std::pair<uint32_t, uint32_t>> reversed;
  std::vector<uint8_t> live(n, 0);
  std::vector<uint32_t> stack;
  for (uint32_t from = 0; from < n; ++from) {
    if (!reach.reached(from)) continue;
    const RuleAutomaton::State& state = joined.state(from);
    const uint32_t first = joined.first_state[joined.rule_of[from]];
    for (const RuleAutomaton::Edge& edge : state.edges) reversed.emplace_back(first + edge.to, from);
    for (const RuleAutomaton::Call& call : state.calls) {
      if (reach.ends(call.rule)) reversed.emplace_back(first + call.to, from);
    }
    if (!state.accepting) continue;
    live[from] = 1;
    stack.push_back(from);
  }
  std::ranges::sort(reversed);
  while (!stack.empty()) {
    const uint32_t to = stack.back();
    stack.pop_back();
    for (auto edge = std::ranges::lower_bound(reversed, std::pair(to, 0u)); edge != reversed.end() && edge->first == to; ++edge) {
      if (live[edge->second]) continue;
      live[edge->second] = 1;
      stack.push_back(edge->second);
    }
  }
  return live;
}

// A rule that calls itself before reading anything would recurse endlessly.
void refuse_left_recursion(const Joined& joined, const std::vector<uint8_t>& live, const Reach& productive, const Grammar& grammar) {
  const Reach silent(joined, false, &live);
  std::vector<std::vector<RuleId>> calls(joined.rules.size());
  for (uint32_t state = 0; state < joined.n_states(); ++state) {
    if (!live[state] || !silent.reached(state)) continue;
    for (const RuleAutomaton::Call& call : joined.state(state).calls) {
      if (productive.ends(call.rule)) calls[joined.rule_of[state]].push_back(call.rule);
    }
  }
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> marks(calls.size(), kNew);
  std::vector<std::pair<RuleId, size_t>> path;
  for (RuleId root = 0; root < calls.size(); ++root) {
    if (marks[root] != kNew) continue;
    marks[root] = kOpen;
    path.emplace_back(root, 0);
    while (!path.empty()) {
      auto& [rule, next] = path.back();
      if (next == calls[rule].size()) {
        marks[rule] = kDone;
        path.pop_back();
        continue;
      }
      const RuleId called = calls[rule][next++];
      if (marks[called] == kOpen) {
        const std::string name = called < grammar.rules().size() ? grammar.rules()[called].name : "a repeated part";
        throw Error(Code::kBadArgument,
                    fmt::format("'{}' is left-recursive: it refers to itself before it reads anything; write it as a repetition", name));
      }
      if (marks[called] != kNew) continue;
      marks[called] = kOpen;
      path.emplace_back(called, 0);
    }
  }
}

void find_classes(Automaton& automaton) {
  bool cuts[257] = {true};
  for (const Automaton::Edge& edge : automaton.edges) cuts[edge.first] = cuts[edge.last + 1] = true;
  for (int byte = 0; byte < 256; ++byte) {
    if (cuts[byte]) automaton.class_bytes.push_back(static_cast<uint8_t>(byte));
    automaton.class_of[static_cast<size_t>(byte)] = static_cast<uint8_t>(automaton.class_bytes.size() - 1);
  }
}

Automaton flatten(const Joined& joined, const std::vector<uint8_t>& live, const Reach& productive, RuleId root) {
  std::vector<uint32_t> numbers(joined.n_states(), kNoState);
  uint32_t n_live = 0;
  for (size_t i = 0; i < live.size(); ++i) {
    if (live[i]) numbers[i] = n_live++;
  }
  const auto is_plain_end = [&](uint32_t global) {
    const RuleAutomaton::State& state = joined.state(global);
    return state.accepting && state.edges.empty() && state.calls.empty();
  };
  Automaton automaton;
  automaton.start = numbers[joined.first_state[root]];
  for (uint32_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    const RuleAutomaton::State& state = joined.state(i);
    const uint32_t first = joined.first_state[joined.rule_of[i]];
    automaton.first_edge.push_back(static_cast<uint32_t>(automaton.edges.size()));
    automaton.first_call.push_back(static_cast<uint32_t>(automaton.calls.size()));
    automaton.accepting.push_back(state.accepting);
    for (const RuleAutomaton::Edge& edge : state.edges) {
      if (live[first + edge.to]) automaton.edges.push_back({edge.first, edge.last, numbers[first + edge.to]});
    }
    for (const RuleAutomaton::Call& call : state.calls) {
      const uint32_t back = first + call.to;
      if (!live[back] || !productive.ends(call.rule)) continue;
      automaton.calls.push_back({numbers[joined.first_state[call.rule]], is_plain_end(back) ? kNoState : numbers[back]});
    }
  }
  automaton.first_edge.push_back(static_cast<uint32_t>(automaton.edges.size()));
  automaton.first_call.push_back(static_cast<uint32_t>(automaton.calls.size()));
  find_classes(automaton);
  return automaton;
}

}  // namespace

Automaton compile(const Grammar& grammar, const char* what) {
  const Joined joined = join(grammar);
  const Reach productive(joined, true);
  if (!productive.ends(grammar.root()))
    throw Error(Code::kBadArgument, fmt::format("no text can match the {}{}{}", what, grammar.note().empty() ? "" : ", ", grammar.note()));
  const std::vector<uint8_t> live = live_states(joined, productive);
  refuse_left_recursion(joined, live, productive, grammar);
  return flatten(joined, live, productive, grammar.root());
}

}  // namespace kvik::constrain
