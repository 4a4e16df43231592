#include "analysis/operators.h"

#include <unordered_set>

#include "onnx/attention_operators.h"

namespace kvik::analysis {
namespace {

using Names = std::unordered_set<std::string_view>;
using Holds = StateSlot::Holds;

constexpr std::string_view kMs = onnx::kMicrosoftDomain;

// States of recurrent operators; attention operators are in onnx/attention_operators.h.
struct RecurrentOperator {
  std::string_view domain;
  std::string_view op;
  std::vector<StateSlot> states;
};

const std::vector<RecurrentOperator>& recurrent_operators() {
  static const std::vector<StateSlot> kAt3 = {{3, 1, Holds::kRecurrent, -1}}, kHidden = {{5, 1, Holds::kRecurrent, -1}};
  static const std::vector<RecurrentOperator> kOperators = {
      {"", "LinearAttention", kAt3},
      {kMs, "LinearAttention", kAt3},
      {"", "CausalConvWithState", kAt3},
      {kMs, "CausalConvWithState", kAt3},
      {"", "LSTM", {{5, 1, Holds::kRecurrent, -1}, {6, 2, Holds::kRecurrent, -1}}},
      {"", "GRU", kHidden},
      {"", "RNN", kHidden},
  };
  return kOperators;
}

StatefulOperator stateful(const onnx::AttentionOperator& op) {
  StatefulOperator result{op.domain, op.op, {}, op.position_axis, op.key, op.value};
  if (op.past_key >= 0) result.states.push_back({op.past_key, op.present_key, Holds::kKey, op.key});
  if (op.past_value >= 0) result.states.push_back({op.past_value, op.present_value, Holds::kValue, op.value});
  if (op.past_key_value >= 0) result.states.push_back({op.past_key_value, op.present_key_value, Holds::kKeyValue, -1});
  return result;
}

std::vector<StatefulOperator> all_stateful() {
  std::vector<StatefulOperator> all;
  for (const onnx::AttentionOperator& op : onnx::kAttentionOperators) all.push_back(stateful(op));
  for (const RecurrentOperator& op : recurrent_operators()) all.push_back({op.domain, op.op, op.states});
  return all;
}

ControlSlot attention_control(const onnx::AttentionOperator& op, int input) {
  if (input == op.padding_mask || input == op.score_mask) return ControlSlot::kMask;
  if (input == op.total_length || input == op.key_lengths || input == op.valid_keys) return ControlSlot::kTotalLength;
  if (input == op.last_key) return ControlSlot::kTotalLengthMinusOne;
  if (input == op.past_length) return ControlSlot::kPastLength;
  return input == op.positions ? ControlSlot::kPositions : ControlSlot::kNothing;
}

struct Control {
  std::string_view domain;
  std::string_view op;
  size_t input;
  ControlSlot slot;
};

// Of operators other than attention.
constexpr Control kControls[] = {
    {"", "RotaryEmbedding", 3, ControlSlot::kPositions},       {"", "TensorScatter", 2, ControlSlot::kWriteIndices},
    {kMs, "RotaryEmbedding", 1, ControlSlot::kPositions},      {kMs, "MRotaryEmbedding", 1, ControlSlot::kPositions},
    {kMs, "EmbedLayerNormalization", 0, ControlSlot::kTokens}, {kMs, "EmbedLayerNormalization", 1, ControlSlot::kSegments},
    {kMs, "EmbedLayerNormalization", 7, ControlSlot::kMask},   {kMs, "EmbedLayerNormalization", 8, ControlSlot::kPositions},
};

}  // namespace

bool moves_elements(const FlowNode& node) {
  static const Names kMoving = {
      "Identity",        "Cast",       "CastLike",       "Transpose",        "Reshape", "Unsqueeze", "Squeeze", "Slice",
      "Gather",          "Split",      "Expand",         "Flatten",          "Tile",    "GatherND",  "Dropout", "Pad",
      "SplitToSequence", "SequenceAt", "QuantizeLinear", "DequantizeLinear", kMerge};
  return kMoving.contains(node.op);
}

bool is_elementwise_arithmetic(const FlowNode& node) {
  static const Names kArithmetic = {"Add", "Sub", "Mul", "Div", "Neg", "Where", "Max", "Min", "Clip", "Sum"};
  return kArithmetic.contains(node.op);
}

bool is_comparison(const FlowNode& node) {
  static const Names kComparing = {"Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Not",
                                   "And",   "Or",      "Xor",  "IsNaN",          "IsInf"};
  return kComparing.contains(node.op);
}

bool is_matmul(const FlowNode& node) {
  static const Names kMultiplying = {
      "MatMul",       "Gemm", "Einsum", "FusedMatMul", "TransposeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "DynamicQuantizeMatMul",
      "QLinearMatMul"};
  return kMultiplying.contains(node.op);
}

size_t right_matrix(const FlowNode& node) { return node.is("QLinearMatMul") ? 3 : 1; }

const StatefulOperator* stateful_operator(const FlowNode& node) {
  static const std::vector<StatefulOperator> kStateful = all_stateful();
  if (node.node == nullptr) return nullptr;
  for (const StatefulOperator& known : kStateful) {
    if (known.op == node.op && known.domain == node.domain) return &known;
  }
  return nullptr;
}

bool keeps_a_window(const FlowNode& node) {
  return node.node != nullptr && node.is("GroupQueryAttention") && node.node->int_or("sliding_window_cache", 0) != 0;
}

bool quantizes_dynamically(const FlowNode& node) {
  return node.is("DynamicQuantizeLinear") || node.is("DynamicQuantizeMatMul") || node.is("DynamicQuantizeLSTM");
}

ControlSlot control_slot(const FlowNode& node, size_t input) {
  if (const onnx::AttentionOperator* op = onnx::attention_operator(node.domain, node.op))
    return attention_control(*op, static_cast<int>(input));
  for (const Control& known : kControls) {
    if (known.input == input && known.op == node.op && known.domain == node.domain) return known.slot;
  }
  return ControlSlot::kNothing;
}

}  // namespace kvik::analysis
