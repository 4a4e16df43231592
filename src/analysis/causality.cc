#include "analysis/causality.h"

#include "analysis/constants.h"
#include "analysis/operators.h"

namespace kvik::analysis {
namespace {

constexpr int kMostSteps = 8;  // nodes between a comparison and its use
constexpr size_t kMostReaders = 64;

bool is_order(const FlowNode& node) { return node.is("Less") || node.is("LessOrEqual") || node.is("Greater") || node.is("GreaterOrEqual"); }

bool is_triangle(const Flow& flow, FlowValue value) {
  const onnx::TensorData* data = value == kNone ? nullptr : flow.constant(value);
  if (data == nullptr || data->dims.size() < 2) return false;
  const int64_t n = data->dims.back();
  return n > 1 && data->dims[data->dims.size() - 2] == n && data->n_elements == n * n;
}

const FlowNode* behind_moves(const Flow& flow, FlowValue value) {
  const FlowNode* node = value == kNone ? nullptr : flow.producer(value);
  for (int depth = 0; depth < kMostSteps && node != nullptr && moves_elements(*node) && node->input(0) != kNone; ++depth) {
    node = flow.producer(node->input(0));
  }
  return node;
}

class Search {
 public:
  Search(const Flow& flow, const std::vector<Port>& inputs) : flow_(flow), inputs_(inputs) {}

  bool orders_positions(const FlowNode& node) const {
    if (!is_order(node)) return false;
    if (counts(node.input(0)) && counts(node.input(1))) return true;
    return (is_distance(node.input(0)) && next_to_zero(node.input(1)) && hides(node)) ||
           (is_distance(node.input(1)) && next_to_zero(node.input(0)) && hides(node));
  }

 private:
  bool counts(FlowValue value) const { return counts_positions(flow_, value) || is_positions_input(value); }

  bool is_positions_input(FlowValue value) const {
    for (int depth = 0; depth < kMostSteps && value != kNone; ++depth) {
      if (flow_.is_input(value)) return inputs_[static_cast<size_t>(flow_.input_index(value))].role == Role::kPositionIds;
      const FlowNode* node = flow_.producer(value);
      if (node == nullptr || !(moves_elements(*node) || node->is("Add") || node->is("Sub"))) return false;
      value = node->input(0);
    }
    return false;
  }

  bool is_distance(FlowValue value) const {
    const FlowNode* node = behind_moves(flow_, value);
    return node != nullptr && node->is("Sub") && counts(node->input(0)) && counts(node->input(1));
  }

  // A two-sided window also compares distances, but with its size.
  bool next_to_zero(FlowValue value) const {
    const auto number = value == kNone ? std::nullopt : constant_int(flow_, value);
    return number && *number >= -1 && *number <= 1;
  }

  // Whether the result selects between scores and a constant or is an attention mask; relative-position buckets do neither.
  bool hides(const FlowNode& comparison) const {
    std::vector<FlowValue> here = comparison.outputs;
    for (int step = 0; step < kMostSteps && !here.empty() && here.size() < kMostReaders; ++step) {
      std::vector<FlowValue> next;
      for (const FlowValue value : here) {
        for (const FlowNodeId reader : flow_.readers(value)) {
          const FlowNode& node = flow_.node(reader);
          if (node.is("Where") && node.input(0) == value && (is_single(node.input(1)) || is_single(node.input(2)))) return true;
          if (node.node != nullptr && stateful_operator(node) != nullptr) return true;
          if (is_comparison(node) || moves_elements(node)) next.insert(next.end(), node.outputs.begin(), node.outputs.end());
        }
      }
      here = std::move(next);
    }
    return false;
  }

  bool is_single(FlowValue value) const {
    const onnx::TensorData* data = value == kNone ? nullptr : flow_.constant(value);
    return data != nullptr && data->n_elements == 1;
  }

  const Flow& flow_;
  const std::vector<Port>& inputs_;
};

bool is_causal_operator(const FlowNode& node) {
  if (node.is("GroupQueryAttention")) return true;
  if (node.node == nullptr || stateful_operator(node) == nullptr) return false;
  return node.node->int_or("is_causal", 0) != 0 || node.node->int_or("unidirectional", 0) != 0;
}

}  // namespace

bool counts_positions(const Flow& flow, FlowValue value) {
  for (int depth = 0; depth < kMostSteps && value != kNone; ++depth) {
    const FlowNode* node = flow.producer(value);
    if (node == nullptr) return false;
    if (node->is("Range") || node->is("CumSum")) return true;
    if (!moves_elements(*node) && !is_elementwise_arithmetic(*node)) return false;
    const FlowValue first = node->input(0);
    value = first != kNone && flow.constant(first) != nullptr ? node->input(1) : first;
  }
  return false;
}

bool looks_causal(const Flow& flow, const std::vector<Port>& inputs) {
  const Search search(flow, inputs);
  for (const FlowNode& node : flow.nodes()) {
    if (node.is("Trilu") || is_causal_operator(node) || search.orders_positions(node)) return true;
    if ((node.is("Slice") || node.is("Where") || node.is("Add")) && is_triangle(flow, node.input(0))) return true;
  }
  return false;
}

}  // namespace kvik::analysis
