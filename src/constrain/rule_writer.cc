#include <fmt/format.h>

#include "constrain/limits.h"
#include "constrain/rule_automaton.h"
#include "kvik/error.h"

namespace kvik::constrain {
namespace {

constexpr int kFewRepetitions = 4;
constexpr size_t kSmallBytes = 4;

}  // namespace

RuleNfa RuleWriter::write(NodeId body) {
  nfa_ = {};
  nfa_.start = new_state();
  nfa_.end = new_state();
  write_node(body, {nfa_.start, nfa_.end});
  return std::move(nfa_);
}

uint32_t RuleWriter::new_state() {
  if (++n_states_ > kMostStates)
    throw Error(Code::kBadArgument, fmt::format("the constraint needs more than {} states; shorten what it repeats", kMostStates));
  return nfa_.n_states++;
}

void RuleWriter::write_node(NodeId id, Ends ends) {
  const Grammar::Node& node = grammar_.node(id);
  switch (node.kind) {
    case Grammar::Kind::kBytes: write_bytes(grammar_.bytes_of(node), ends); return;
    case Grammar::Kind::kChars: write_chars(grammar_.chars_of(node), ends); return;
    case Grammar::Kind::kRepeat: write_repeat(node, ends); return;
    case Grammar::Kind::kGraph: write_graph(grammar_.graph_of(node), ends); return;
    case Grammar::Kind::kRule: nfa_.edges.push_back({ends.from, ends.to, node.index, RuleNfa::Kind::kCall}); return;
    case Grammar::Kind::kChoice:
      for (const NodeId option : node.children) write_node(option, ends);
      return;
    case Grammar::Kind::kSequence: break;
  }
  uint32_t at = ends.from;
  for (size_t i = 0; i < node.children.size(); ++i) {
    const uint32_t next = i + 1 == node.children.size() ? ends.to : new_state();
    write_node(node.children[i], {at, next});
    at = next;
  }
  if (node.children.empty()) connect(ends.from, ends.to);
}

void RuleWriter::write_bytes(const std::string& bytes, Ends ends) {
  uint32_t at = ends.from;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint32_t next = i + 1 == bytes.size() ? ends.to : new_state();
    const auto byte = static_cast<uint8_t>(bytes[i]);
    nfa_.edges.push_back({at, next, 0, RuleNfa::Kind::kBytes, byte, byte});
    at = next;
  }
  if (bytes.empty()) connect(ends.from, ends.to);
}

void RuleWriter::write_chars(const CharSet& set, Ends ends) {
  for (const ByteSequence& sequence : utf8_sequences(set)) {
    uint32_t at = ends.from;
    for (int i = 0; i < sequence.n; ++i) {
      const uint32_t next = i + 1 == sequence.n ? ends.to : new_state();
      nfa_.edges.push_back({at, next, 0, RuleNfa::Kind::kBytes, sequence.bytes[i].first, sequence.bytes[i].last});
      at = next;
    }
  }
}

// Whether copying it takes no more memory than calling it.
bool RuleWriter::is_small(NodeId id) const {
  const Grammar::Node& node = grammar_.node(id);
  if (node.kind == Grammar::Kind::kRule) return true;
  if (node.kind == Grammar::Kind::kBytes) return grammar_.bytes_of(node).size() <= kSmallBytes;
  if (node.kind != Grammar::Kind::kChars) return false;
  const CharSet& set = grammar_.chars_of(node);
  return set.ranges().size() <= kSmallBytes && (set.empty() || set.ranges().back().last < 0x80);
}

RuleId RuleWriter::rule_of(NodeId id) {
  const auto [place, is_new] = rule_of_node_.try_emplace(id, n_rules_);
  if (is_new) {
    ++n_rules_;
    added_.push_back(id);
  }
  return place->second;
}

void RuleWriter::write_repeat(const Grammar::Node& node, Ends ends) {
  const NodeId what = node.children.front();
  const int n_copies = node.most == kNoLimit ? node.least + 1 : node.most;
  const bool calls = n_copies > kFewRepetitions && !is_small(what);
  const RuleId rule = calls ? rule_of(what) : 0;
  const auto write_one = [&](uint32_t from, uint32_t to) {
    if (calls) {
      nfa_.edges.push_back({from, to, rule, RuleNfa::Kind::kCall});
    } else {
      write_node(what, {from, to});
    }
  };
  uint32_t at = new_state();  // not ends.from, which other parts may share
  connect(ends.from, at);
  for (int i = 0; i < node.least; ++i) {
    const uint32_t next = new_state();
    write_one(at, next);
    at = next;
  }
  if (node.most == kNoLimit) {
    const uint32_t loop = new_state();
    connect(at, loop);
    const uint32_t back = new_state();
    write_one(loop, back);
    connect(back, loop);
    connect(loop, ends.to);
    return;
  }
  for (int i = node.least; i < node.most; ++i) {
    connect(at, ends.to);
    const uint32_t next = new_state();
    write_one(at, next);
    at = next;
  }
  connect(at, ends.to);
}

void RuleWriter::write_graph(const Graph& graph, Ends ends) {
  const uint32_t first = nfa_.n_states;
  for (uint32_t i = 0; i < graph.n_states; ++i) new_state();
  connect(ends.from, first);
  for (const Graph::Edge& edge : graph.edges) write_node(edge.reads, {first + edge.from, first + edge.to});
  for (const uint32_t state : graph.accepting) connect(first + state, ends.to);
}

}  // namespace kvik::constrain
