#include "constrain/grammar.h"

#include <fmt/format.h>

#include "constrain/limits.h"
#include "kvik/error.h"

namespace kvik::constrain {

NodeId Grammar::add(Node node) {
  if (nodes_.size() >= kMostNodes) throw Error(Code::kBadArgument, fmt::format("the constraint has more than {} parts", kMostNodes));
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Grammar::bytes(std::string_view text) {
  bytes_.emplace_back(text);
  return add({.kind = Kind::kBytes, .index = static_cast<uint32_t>(bytes_.size() - 1)});
}

NodeId Grammar::chars(const CharSet& set) {
  sets_.push_back(set);
  return add({.kind = Kind::kChars, .index = static_cast<uint32_t>(sets_.size() - 1)});
}

NodeId Grammar::sequence(std::vector<NodeId> parts) { return add({.kind = Kind::kSequence, .children = std::move(parts)}); }
NodeId Grammar::choice(std::vector<NodeId> options) { return add({.kind = Kind::kChoice, .children = std::move(options)}); }

NodeId Grammar::repeat(NodeId what, int least, int most) {
  return add({.kind = Kind::kRepeat, .least = least, .most = most, .children = {what}});
}

NodeId Grammar::graph(Graph graph) {
  graphs_.push_back(std::move(graph));
  return add({.kind = Kind::kGraph, .index = static_cast<uint32_t>(graphs_.size() - 1)});
}

NodeId Grammar::call(RuleId rule) { return add({.kind = Kind::kRule, .index = rule}); }

RuleId Grammar::add_rule(std::string name) {
  if (rules_.size() >= kMostRules) throw Error(Code::kBadArgument, fmt::format("the constraint has more than {} rules", kMostRules));
  rules_.push_back({std::move(name)});
  return static_cast<RuleId>(rules_.size() - 1);
}

void Grammar::define(RuleId rule, NodeId body) {
  rules_[rule].body = body;
  rules_[rule].defined = true;
}

}  // namespace kvik::constrain
