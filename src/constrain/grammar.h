#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "constrain/char_set.h"

namespace kvik::constrain {

using NodeId = uint32_t;
using RuleId = uint32_t;

inline constexpr int kNoLimit = -1;  // of repetitions

// A small automaton; each edge reads a node. State 0 is the start.
struct Graph {
  struct Edge {
    uint32_t from, to;
    NodeId reads;
  };
  uint32_t n_states = 1;
  std::vector<Edge> edges;
  std::vector<uint32_t> accepting;

  uint32_t add_state() { return n_states++; }
};

// The common representation of all constraints. Nodes refer to nodes that were added before them; rules may refer to any rule.
class Grammar {
 public:
  enum class Kind : uint8_t { kBytes, kChars, kSequence, kChoice, kRepeat, kRule, kGraph };
  struct Node {
    Kind kind;
    int least = 0, most = 0;       // kRepeat
    uint32_t index = 0;            // of bytes, sets, rules or graphs
    std::vector<NodeId> children;  // kSequence, kChoice; one of kRepeat
  };
  struct Rule {
    std::string name;  // in messages
    NodeId body = 0;
    bool defined = false;
  };

  NodeId bytes(std::string_view text);
  NodeId chars(const CharSet& set);
  NodeId sequence(std::vector<NodeId> parts);
  NodeId choice(std::vector<NodeId> options);
  NodeId repeat(NodeId what, int least, int most);
  NodeId optional(NodeId what) { return repeat(what, 0, 1); }
  NodeId empty() { return sequence({}); }
  NodeId never() { return choice({}); }  // matches nothing
  NodeId graph(Graph graph);
  NodeId call(RuleId rule);

  RuleId add_rule(std::string name);
  void define(RuleId rule, NodeId body);
  void set_root(RuleId rule) { root_ = rule; }
  // The reason to report if nothing can match.
  void set_note(std::string note) { note_ = std::move(note); }

  const Node& node(NodeId id) const { return nodes_[id]; }
  const std::vector<Rule>& rules() const { return rules_; }
  RuleId root() const { return root_; }
  const std::string& note() const { return note_; }
  const std::string& bytes_of(const Node& node) const { return bytes_[node.index]; }
  const CharSet& chars_of(const Node& node) const { return sets_[node.index]; }
  const Graph& graph_of(const Node& node) const { return graphs_[node.index]; }

 private:
  NodeId add(Node node);

  std::vector<Node> nodes_;
  std::vector<std::string> bytes_;
  std::vector<CharSet> sets_;
  std::vector<Graph> graphs_;
  std::vector<Rule> rules_;
  RuleId root_ = 0;
  std::string note_;
};

}  // namespace kvik::constrain
