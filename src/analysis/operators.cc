#include "analysis/operators.h"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace kvik::analysis {
namespace {

using Names = std::unordered_set<std::string_view>;
using Holds = StateSlot::Holds;

constexpr std::string_view kMs = "com.microsoft";

constexpr StateSlot kAt3And4[] = {{3, 1, Holds::kKey, 1}, {4, 2, Holds::kValue, 2}};
constexpr StateSlot kAt4And5[] = {{4, 1, Holds::kKey, 1}, {5, 2, Holds::kValue, 2}};
constexpr StateSlot kAt5And6[] = {{5, 1, Holds::kKey, 1}, {6, 2, Holds::kValue, 2}};
constexpr StateSlot kAt6And7[] = {{6, 1, Holds::kKey, 1}, {7, 2, Holds::kValue, 2}};
constexpr StateSlot kBothAt4[] = {{4, 1, Holds::kKeyValue, -1}};
constexpr StateSlot kBothAt8[] = {{8, 1, Holds::kKeyValue, -1}};
constexpr StateSlot kRecurrentAt3[] = {{3, 1, Holds::kRecurrent, -1}};
constexpr StateSlot kHiddenAt5[] = {{5, 1, Holds::kRecurrent, -1}};
constexpr StateSlot kHiddenAndCell[] = {{5, 1, Holds::kRecurrent, -1}, {6, 2, Holds::kRecurrent, -1}};

constexpr StatefulOperator kStateful[] = {
    {"", "Attention", kAt4And5, 2, 1, 2},
    {kMs, "GroupQueryAttention", kAt3And4, 2, 1, 2},
    {kMs, "SparseAttention", kAt3And4, 2, 1, 2},
    {kMs, "PagedAttention", kAt3And4, 1, 1, 2},
    {kMs, "MultiHeadAttention", kAt6And7, 2, 1, 2},
    {kMs, "DecoderMaskedMultiHeadAttention", kAt5And6, 2, 1, 2},
    {kMs, "Attention", kBothAt4, 3},
    {kMs, "DecoderMaskedSelfAttention", kBothAt4, 3},
    {kMs, "QAttention", kBothAt8, 3},
    {"", "LinearAttention", kRecurrentAt3},
    {kMs, "LinearAttention", kRecurrentAt3},
    {"", "CausalConvWithState", kRecurrentAt3},
    {kMs, "CausalConvWithState", kRecurrentAt3},
    {"", "LSTM", kHiddenAndCell},
    {"", "GRU", kHiddenAt5},
    {"", "RNN", kHiddenAt5},
};

struct Control {
  std::string_view domain;
  std::string_view op;
  size_t input;
  ControlSlot slot;
};

constexpr Control kControls[] = {
    {"", "Attention", 3, ControlSlot::kMask},
    {"", "Attention", 6, ControlSlot::kTotalLength},
    {"", "RotaryEmbedding", 3, ControlSlot::kPositions},
    {"", "TensorScatter", 2, ControlSlot::kWriteIndices},
    {kMs, "RotaryEmbedding", 1, ControlSlot::kPositions},
    {kMs, "MRotaryEmbedding", 1, ControlSlot::kPositions},
    {kMs, "GroupQueryAttention", 5, ControlSlot::kTotalLengthMinusOne},
    {kMs, "GroupQueryAttention", 6, ControlSlot::kTotalLength},
    {kMs, "GroupQueryAttention", 9, ControlSlot::kPositions},
    {kMs, "GroupQueryAttention", 10, ControlSlot::kMask},
    {kMs, "SparseAttention", 7, ControlSlot::kTotalLength},
    {kMs, "SparseAttention", 8, ControlSlot::kTotalLength},
    {kMs, "PagedAttention", 6, ControlSlot::kPastLength},
    {kMs, "MultiHeadAttention", 4, ControlSlot::kMask},
    {kMs, "MultiHeadAttention", 5, ControlSlot::kMask},
    {kMs, "MultiHeadAttention", 8, ControlSlot::kPastLength},
    {kMs, "DecoderMaskedMultiHeadAttention", 3, ControlSlot::kMask},
    {kMs, "DecoderMaskedMultiHeadAttention", 4, ControlSlot::kMask},
    {kMs, "DecoderMaskedMultiHeadAttention", 7, ControlSlot::kPastLength},
    {kMs, "Attention", 3, ControlSlot::kMask},
    {kMs, "Attention", 5, ControlSlot::kMask},
    {kMs, "Attention", 6, ControlSlot::kPastLength},
    {kMs, "DecoderMaskedSelfAttention", 3, ControlSlot::kMask},
    {kMs, "DecoderMaskedSelfAttention", 6, ControlSlot::kPastLength},
    {kMs, "QAttention", 5, ControlSlot::kMask},
    {kMs, "EmbedLayerNormalization", 0, ControlSlot::kTokens},
    {kMs, "EmbedLayerNormalization", 1, ControlSlot::kSegments},
    {kMs, "EmbedLayerNormalization", 7, ControlSlot::kMask},
    {kMs, "EmbedLayerNormalization", 8, ControlSlot::kPositions},
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

const StatefulOperator* stateful_operator(const FlowNode& node) {
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
  for (const Control& known : kControls) {
    if (known.input == input && known.op == node.op && known.domain == node.domain) return known.slot;
  }
  return ControlSlot::kNothing;
}

}  // namespace kvik::analysis
