#pragma once

#include <cstdint>
#include <vector>

#include "constrain/grammar.h"

namespace kvik::constrain {

// The automaton of one rule before determinization: with epsilon transitions (kEmpty).
struct RuleNfa {
  enum class Kind : uint8_t { kBytes, kEmpty, kCall };
  struct Edge {
    uint32_t from, to;
    RuleId rule = 0;  // kCall
    Kind kind = Kind::kEmpty;
    uint8_t first = 0, last = 0;  // kBytes
  };
  uint32_t n_states = 0;
  uint32_t start = 0, end = 0;
  std::vector<Edge> edges;
};

// Without epsilon transitions; deterministic unless that would make it much larger. State 0 is the start.
struct RuleAutomaton {
  struct Edge {
    uint8_t first, last;
    uint32_t to;
  };
  struct Call {
    RuleId rule;
    uint32_t to;
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<Call> calls;
    bool accepting = false;
  };
  std::vector<State> states;
};

// Throws Error(kBadArgument) past a limit.
RuleAutomaton without_empty_edges(const RuleNfa& nfa);

// Converts rules to automata. A large part that is repeated becomes a rule, which is called.
class RuleWriter {
 public:
  explicit RuleWriter(const Grammar& grammar) : grammar_(grammar), n_rules_(static_cast<RuleId>(grammar.rules().size())) {}

  RuleNfa write(NodeId body);
  // Rules added by write(); their numbers follow those of grammar.rules().
  size_t n_added() const { return added_.size(); }
  NodeId added(size_t i) const { return added_[i]; }

 private:
  struct Ends {
    uint32_t from, to;
  };
  uint32_t new_state();
  void connect(uint32_t from, uint32_t to) { nfa_.edges.push_back({from, to}); }
  void write_node(NodeId id, Ends ends);
  void write_bytes(const std::string& bytes, Ends ends);
  void write_chars(const CharSet& set, Ends ends);
  void write_repeat(const Grammar::Node& node, Ends ends);
  void write_graph(const Graph& graph, Ends ends);
  bool is_small(NodeId id) const;
  RuleId rule_of(NodeId id);

  const Grammar& grammar_;
  RuleId n_rules_;
  RuleNfa nfa_;
  size_t n_states_ = 0;  // of all rules
  std::vector<NodeId> added_;
  std::map<NodeId, RuleId> rule_of_node_;
};

}  // namespace kvik::constrain
