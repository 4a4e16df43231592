#include "backend/native/attention/operator_definition.h"

#include <cmath>
#include <fmt/format.h>

#include "backend/native/probe/arrange.h"

namespace kvik::native {
namespace {

using onnx::Node;
using onnx::ValueId;

bool has(const Node& node, size_t i) { return i < node.inputs.size() && node.inputs[i] != onnx::kNoValue; }

void refuse_input(const Node& node, size_t i, std::string_view what) {
  if (has(node, i)) throw Refusal(node, fmt::format("its input {} ({}) is not covered", i, what));
}

int if_given(const Node& node, size_t i) { return has(node, i) ? static_cast<int>(i) : -1; }

// Rows of [batch, rows, heads * size] and of [batch, heads, rows, size] are laid out alike: heads, then elements.
void find_sizes(const AttentionContext& context, OperatorDefinition& definition, int64_t n_heads, int64_t n_kv_heads) {
  const auto axes = [&](size_t i) -> const Axes& { return context.labels[definition.node.inputs.at(i)].axes; };
  for (size_t i = 0; i < 3; ++i) {
    if (!has(definition.node, i) || context.labels[definition.node.inputs[i]].kind != Label::Kind::kRow)
      throw Refusal(definition.node, "queries, keys and values were expected as its first three inputs, each made of rows");
    if (axes(i).size() != 3 && axes(i).size() != 4)
      throw Refusal(definition.node, fmt::format("its input {} has axes {}, 3 or 4 of them were expected", i, to_string(axes(i))));
  }
  definition.n_heads = axes(0).size() == 4 ? row_size(axes(0)[1]) : n_heads;
  definition.n_kv_heads = axes(1).size() == 4 ? row_size(axes(1)[1]) : n_kv_heads;
  if (definition.n_heads < 1 || definition.n_kv_heads < 1 || definition.n_heads % definition.n_kv_heads != 0)
    throw Refusal(definition.node, fmt::format("{} query heads share {} key heads", definition.n_heads, definition.n_kv_heads));
  const int64_t q = row_elements(axes(0)), k = row_elements(axes(1)), v = row_elements(axes(2));
  definition.key_dim = q / definition.n_heads;
  definition.value_dim = v / definition.n_kv_heads;
  if (definition.key_dim < 1 || definition.value_dim < 1 || q != definition.n_heads * definition.key_dim ||
      k != definition.n_kv_heads * definition.key_dim || v != definition.n_kv_heads * definition.value_dim)
    throw Refusal(definition.node,
                  fmt::format("rows of {}, {} and {} elements are no {} and {} heads", q, k, v, definition.n_heads, definition.n_kv_heads));
}

// A scale of 0 is "not given" for com.microsoft's operators.
float scale_of(const OperatorDefinition& definition, bool zero_is_none) {
  const float scale = definition.node.float_or("scale", 0.0f);
  if (definition.node.has("scale") && !(zero_is_none && scale == 0)) return scale;
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(definition.key_dim)));
}

std::vector<float> sinks_of(const AttentionContext& context, const OperatorDefinition& definition, size_t input) {
  if (!has(definition.node, input))
    return std::vector<float>(definition.node.int_or("smooth_softmax", 0) != 0 ? static_cast<size_t>(definition.n_heads) : 0);
  if (context.labels[definition.node.inputs[input]].kind != Label::Kind::kConstant)
    throw Refusal(definition.node, "its sinks are no constant");
  const Tensor sinks = to_floats(context.constants.get(definition.node.inputs[input]));
  if (sinks.size() != definition.n_heads)
    throw Refusal(definition.node, fmt::format("{} sinks were found for {} heads", sinks.size(), definition.n_heads));
  return {sinks.data<float>().begin(), sinks.data<float>().end()};
}

OperatorDefinition group_query(const AttentionContext& context, const Node& node) {
  OperatorDefinition definition{.node = node};
  find_sizes(context, definition, node.int_or("num_heads", 0), node.int_or("kv_num_heads", 0));
  if (node.int_or("do_rotary", 0) != 0) throw Refusal(node, "it rotates queries and keys itself");
  if (node.string_or("k_quant_type", "NONE") != "NONE" || node.string_or("v_quant_type", "NONE") != "NONE")
    throw Refusal(node, "it keeps a quantised cache");
  refuse_input(node, 12, "scale of quantised keys");
  refuse_input(node, 13, "scale of quantised values");
  refuse_input(node, 14, "normalisation of queries");
  refuse_input(node, 15, "normalisation of keys");
  definition.past_key = if_given(node, 3);
  definition.past_value = if_given(node, 4);
  definition.mask = if_given(node, 10);
  definition.function = {scale_of(definition, true), node.float_or("softcap", 0.0f)};
  definition.causal = node.int_or("causal", 1) != 0;
  definition.by_position = true;
  const int64_t window = node.int_or("local_window_size", -1);
  if (window == 0) throw Refusal(node, "its window holds no key");
  if (window > 0) definition.left = window - 1;
  definition.sinks = sinks_of(context, definition, 11);
  return definition;
}

// All keys must be valid: rows know no padding.
void require_open_padding_mask(const AttentionContext& context, const Node& node, size_t input) {
  if (!has(node, input)) return;
  if (context.labels[node.inputs[input]].kind == Label::Kind::kRow) throw Refusal(node, "its padding mask depends on rows");
  for (Probe* probe : context.probes.triple()) {
    const Tensor mask = to_floats(probe->get(node.inputs[input]));
    const float least = mask.rank() == 2 ? 1 : static_cast<float>(probe->sizes().total());
    if (mask.rank() > 2) throw Refusal(node, "its padding mask relates queries to keys");
    for (const float value : mask.data<float>()) {
      if (value < least) throw Refusal(node, "its padding mask hides keys where there is no padding");
    }
  }
}

OperatorDefinition multi_head(const AttentionContext& context, const Node& node) {
  OperatorDefinition definition{.node = node};
  find_sizes(context, definition, node.int_or("num_heads", 0), node.int_or("num_heads", 0));
  refuse_input(node, 3, "bias of queries, keys and values");
  require_open_padding_mask(context, node, 4);
  refuse_input(node, 9, "cache indirection");
  definition.mask = if_given(node, 5);
  definition.past_key = if_given(node, 6);
  definition.past_value = if_given(node, 7);
  definition.function = {scale_of(definition, true), 0};
  definition.causal = node.int_or("unidirectional", 0) != 0;
  return definition;
}

OperatorDefinition standard(const AttentionContext& context, const Node& node) {
  OperatorDefinition definition{.node = node};
  find_sizes(context, definition, node.int_or("q_num_heads", 0), node.int_or("kv_num_heads", 0));
  definition.mask = if_given(node, 3);
  definition.mask_may_be_short = node.opset >= 24;
  definition.past_key = if_given(node, 4);
  definition.past_value = if_given(node, 5);
  definition.valid_keys = if_given(node, 6);
  definition.function = {scale_of(definition, false), node.float_or("softcap", 0.0f)};
  definition.causal = node.int_or("is_causal", 0) != 0;
  definition.left = node.int_or("left_window_size", -1);
  definition.right = node.int_or("right_window_size", -1);
  return definition;
}

}  // namespace

OperatorDefinition operator_definition(const AttentionContext& context, const Node& node) {
  if (node.op == "Attention" && node.domain.empty()) return standard(context, node);
  if (node.op == "GroupQueryAttention" && node.domain == onnx::kMicrosoft) return group_query(context, node);
  if (node.op == "MultiHeadAttention" && node.domain == onnx::kMicrosoft) return multi_head(context, node);
  throw Refusal(node, "this attention operator is not covered");
}

}  // namespace kvik::native
