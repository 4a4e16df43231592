#include "analysis/attention_map.h"

#include <unordered_set>

#include "analysis/constants.h"

namespace kvik::analysis {
namespace {

constexpr size_t kMostVisited = 512;  // nodes between a key and its scores; exporters need 20 or 30

bool carries_scores(const FlowNode& node) {
  return moves_elements(node) || is_elementwise_arithmetic(node) || node.is("Concat") || node.is("Tanh") || node.is("BiasAdd");
}

}  // namespace

AttentionMap::AttentionMap(const Flow& flow) : flow_(flow), from_softmax_(flow.n_values()), to_softmax_(flow.n_values()) {
  const auto mark = [](std::vector<bool>& set, FlowValue value) {
    if (value != kNone) set[static_cast<size_t>(value)] = true;
  };
  const auto has = [](const std::vector<bool>& set, FlowValue value) { return value != kNone && set[static_cast<size_t>(value)]; };

  for (const FlowNode& node : flow.nodes()) {
    bool from = node.is("Softmax");
    if (!from && (moves_elements(node) || node.is("Where") || node.is("Mul") || node.is("Div"))) {
      for (const FlowValue value : node.inputs) from |= has(from_softmax_, value);
    }
    if (!from) continue;
    for (const FlowValue value : node.outputs) mark(from_softmax_, value);
  }
  for (auto node = flow.nodes().rbegin(); node != flow.nodes().rend(); ++node) {
    if (node->is("Softmax")) {
      mark(to_softmax_, node->input(0));
      continue;
    }
    bool to = false;
    for (const FlowValue value : node->outputs) to |= has(to_softmax_, value);
    if (!to || !carries_scores(*node)) continue;
    for (const FlowValue value : node->inputs) mark(to_softmax_, value);
  }
}

void AttentionMap::note(const FlowNode& node, size_t slot, AttentionUse& use) const {
  if (const StatefulOperator* op = stateful_operator(node)) {
    const int at = static_cast<int>(slot);
    if (at == op->key_input) use.as_key = true, use.node = &node;
    if (at == op->value_input) use.as_value = true, use.node = &node;
    for (const StateSlot& state : op->states) {
      if (at != state.input) continue;
      use.node = &node;
      use.as_key |= state.holds == StateSlot::Holds::kKey || state.holds == StateSlot::Holds::kKeyValue;
      use.as_value |= state.holds == StateSlot::Holds::kValue || state.holds == StateSlot::Holds::kKeyValue;
      use.as_recurrent |= state.holds == StateSlot::Holds::kRecurrent;
      use.both_in_one |= state.holds == StateSlot::Holds::kKeyValue;
    }
    return;
  }
  const size_t right = right_matrix(node);
  if (!is_matmul(node) || (slot != 0 && slot != right)) return;
  const FlowValue other = node.input(right - slot);
  if (other != kNone && weight_dims(flow_, other)) return;  // a projection or an expert router
  if (other != kNone && from_softmax_[static_cast<size_t>(other)]) {
    use.as_value = true;
  } else if (node.output(0) != kNone && to_softmax_[static_cast<size_t>(node.output(0))]) {
    use.as_key = true;
  }
}

std::vector<FlowValue> AttentionMap::keys_of(const FlowNode& node) const {
  if (const StatefulOperator* op = stateful_operator(node)) {
    if (op->key_input < 0) return {};
    const FlowValue key = node.input(static_cast<size_t>(op->key_input));
    return key == kNone ? std::vector<FlowValue>() : std::vector<FlowValue>{key};
  }
  std::unordered_set<FlowValue> seen;
  std::vector<FlowValue> stack = {node.input(0)};
  std::vector<FlowValue> keys;
  while (!stack.empty() && seen.size() < kMostVisited) {
    const FlowValue at = stack.back();
    stack.pop_back();
    if (at == kNone || !seen.insert(at).second) continue;
    const FlowNode* made_by = flow_.producer(at);
    if (made_by == nullptr) continue;
    if (is_matmul(*made_by)) {
      for (const size_t i : {size_t{0}, right_matrix(*made_by)}) {
        if (made_by->input(i) != kNone && !weight_dims(flow_, made_by->input(i))) keys.push_back(made_by->input(i));
      }
    } else if (carries_scores(*made_by)) {
      stack.insert(stack.end(), made_by->inputs.begin(), made_by->inputs.end());
    }
  }
  return keys;
}

AttentionUse AttentionMap::use_of(FlowValue value) const {
  AttentionUse use;
  std::unordered_set<FlowValue> seen = {value};
  std::vector<FlowValue> stack = {value};
  while (!stack.empty() && seen.size() < kMostVisited) {
    const FlowValue at = stack.back();
    stack.pop_back();
    for (const FlowNodeId reader : flow_.readers(at)) {
      const FlowNode& node = flow_.node(reader);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == at) note(node, i, use);
      }
      if (!moves_elements(node) && !is_elementwise_arithmetic(node) && !node.is("Concat")) continue;
      if (moves_elements(node) && !node.is(kMerge) && node.input(0) != at) continue;
      for (const FlowValue next : node.outputs) {
        if (next != kNone && seen.insert(next).second) stack.push_back(next);
      }
    }
  }
  return use;
}

}  // namespace kvik::analysis
