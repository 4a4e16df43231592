#include "backend/native/attention/operator_definition.h"

#include <cmath>
#include <fmt/format.h>

#include "backend/native/probe/arrange.h"
#include "onnx/attention_operators.h"

namespace kvik::native {
namespace {

using onnx::AttentionOperator;
using onnx::Node;
using onnx::ValueId;

bool has(const Node& node, int i) {
  return i >= 0 && static_cast<size_t>(i) < node.inputs.size() && node.inputs[static_cast<size_t>(i)] != onnx::kNoValue;
}

Expected<> require_no_input(const Node& node, int i, std::string_view what) {
  if (has(node, i)) return refuse(node, fmt::format("its input {} ({}) is not supported", i, what));
  return {};
}

int if_given(const Node& node, int i) { return has(node, i) ? i : -1; }

// Rows of [batch, rows, heads * size] and of [batch, heads, rows, size] are laid out alike: heads, then elements.
Expected<> find_sizes(const AttentionContext& context, OperatorDefinition& definition, const AttentionOperator& at) {
  const auto axes = [&](int i) -> const Axes& { return context.labels[definition.input(i)].axes; };
  for (const int i : {at.query, at.key, at.value}) {
    if (!has(definition.node, i) || context.labels[definition.input(i)].kind != Label::Kind::kRow)
      return refuse(definition.node, fmt::format("its input {} was expected to be computed from rows", i));
    if (axes(i).size() != 3 && axes(i).size() != 4)
      return refuse(definition.node, fmt::format("its input {} has axes {}; 3 or 4 were expected", i, to_string(axes(i))));
  }
  definition.query = definition.input(at.query);
  definition.key = definition.input(at.key);
  definition.value = definition.input(at.value);
  const Axes &of_q = axes(at.query), &of_k = axes(at.key);
  definition.n_heads = of_q.size() == 4 ? row_size(of_q[1]) : definition.node.int_or(at.query_heads, 0);
  definition.n_kv_heads = of_k.size() == 4 ? row_size(of_k[1]) : definition.node.int_or(at.kv_heads, 0);
  if (definition.n_heads < 1 || definition.n_kv_heads < 1 || definition.n_heads % definition.n_kv_heads != 0)
    return refuse(definition.node, fmt::format("{} query heads share {} key heads", definition.n_heads, definition.n_kv_heads));
  const int64_t q = row_elements(of_q), k = row_elements(of_k), v = row_elements(axes(at.value));
  definition.key_dim = q / definition.n_heads;
  definition.value_dim = v / definition.n_kv_heads;
  if (definition.key_dim < 1 || definition.value_dim < 1 || q != definition.n_heads * definition.key_dim ||
      k != definition.n_kv_heads * definition.key_dim || v != definition.n_kv_heads * definition.value_dim)
    return refuse(definition.node, fmt::format("rows of {}, {} and {} elements do not fit {} and {} heads", q, k, v, definition.n_heads,
                                               definition.n_kv_heads));
  return {};
}

// A scale of 0 is "not given" for com.microsoft's operators.
float scale_of(const OperatorDefinition& definition, bool zero_is_none) {
  const float scale = definition.node.float_or("scale", 0.0f);
  if (definition.node.has("scale") && !(zero_is_none && scale == 0)) return scale;
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(definition.key_dim)));
}

Expected<std::vector<float>> sinks_of(const AttentionContext& context, const OperatorDefinition& definition, int input) {
  if (!has(definition.node, input))
    return std::vector<float>(definition.node.int_or("smooth_softmax", 0) != 0 ? static_cast<size_t>(definition.n_heads) : 0);
  if (context.labels[definition.input(input)].kind != Label::Kind::kConstant) return refuse(definition.node, "its sinks are not constant");
  KVIK_TRY(const Tensor constant, context.constants.get(definition.input(input)));
  const Tensor sinks = to_floats(constant);
  if (sinks.size() != definition.n_heads)
    return refuse(definition.node, fmt::format("it has {} sinks for {} heads", sinks.size(), definition.n_heads));
  return std::vector<float>(sinks.data<float>().begin(), sinks.data<float>().end());
}

Expected<OperatorDefinition> group_query(const AttentionContext& context, const Node& node, const AttentionOperator& at) {
  OperatorDefinition definition{.node = node};
  KVIK_CHECK(find_sizes(context, definition, at));
  if (node.int_or("do_rotary", 0) != 0) return refuse(node, "it rotates queries and keys itself");
  if (node.string_or("k_quant_type", "NONE") != "NONE" || node.string_or("v_quant_type", "NONE") != "NONE")
    return refuse(node, "it keeps a quantized cache");
  KVIK_CHECK(require_no_input(node, at.key_scale, "scale of quantized keys"));
  KVIK_CHECK(require_no_input(node, at.value_scale, "scale of quantized values"));
  KVIK_CHECK(require_no_input(node, at.query_norm, "normalization of queries"));
  KVIK_CHECK(require_no_input(node, at.key_norm, "normalization of keys"));
  definition.past_key = if_given(node, at.past_key);
  definition.past_value = if_given(node, at.past_value);
  definition.mask = if_given(node, at.score_mask);
  definition.function = {scale_of(definition, true), node.float_or("softcap", 0.0f)};
  definition.causal = node.int_or("causal", 1) != 0;
  definition.by_position = true;
  const int64_t window = node.int_or("local_window_size", -1);
  if (window == 0) return refuse(node, "its window is empty");
  if (window > 0) definition.left = window - 1;
  KVIK_TRY(definition.sinks, sinks_of(context, definition, at.sinks));
  return definition;
}

// All keys must be valid, because rows have no padding.
Expected<> require_open_padding_mask(const AttentionContext& context, const Node& node, int input) {
  if (!has(node, input)) return {};
  if (context.labels[node.inputs[static_cast<size_t>(input)]].kind == Label::Kind::kRow)
    return refuse(node, "its padding mask depends on rows");
  for (Probe* probe : context.probes.triple()) {
    KVIK_TRY(const Tensor found, probe->get(node.inputs[static_cast<size_t>(input)]));
    const Tensor mask = to_floats(found);
    const float least = mask.rank() == 2 ? 1 : static_cast<float>(probe->sizes().total());
    if (mask.rank() > 2) return refuse(node, "its padding mask depends on both queries and keys");
    for (const float value : mask.data<float>()) {
      if (value < least) return refuse(node, "its padding mask hides keys that are not padding");
    }
  }
  return {};
}

Expected<OperatorDefinition> multi_head(const AttentionContext& context, const Node& node, const AttentionOperator& at) {
  OperatorDefinition definition{.node = node};
  KVIK_CHECK(find_sizes(context, definition, at));
  KVIK_CHECK(require_no_input(node, at.bias, "bias of queries, keys and values"));
  KVIK_CHECK(require_open_padding_mask(context, node, at.padding_mask));
  KVIK_CHECK(require_no_input(node, at.cache_indirection, "cache indirection"));
  definition.mask = if_given(node, at.score_mask);
  definition.past_key = if_given(node, at.past_key);
  definition.past_value = if_given(node, at.past_value);
  definition.function = {scale_of(definition, true), 0};
  definition.causal = node.int_or("unidirectional", 0) != 0;
  return definition;
}

Expected<OperatorDefinition> standard(const AttentionContext& context, const Node& node, const AttentionOperator& at) {
  OperatorDefinition definition{.node = node};
  KVIK_CHECK(find_sizes(context, definition, at));
  definition.mask = if_given(node, at.score_mask);
  definition.mask_may_be_short = node.opset >= 24;
  definition.past_key = if_given(node, at.past_key);
  definition.past_value = if_given(node, at.past_value);
  definition.valid_keys = if_given(node, at.valid_keys);
  definition.function = {scale_of(definition, false), node.float_or("softcap", 0.0f)};
  definition.causal = node.int_or("is_causal", 0) != 0;
  definition.left = node.int_or("left_window_size", -1);
  definition.right = node.int_or("right_window_size", -1);
  return definition;
}

}  // namespace

Expected<OperatorDefinition> operator_definition(const AttentionContext& context, const Node& node) {
  const AttentionOperator* at = onnx::attention_operator(node.domain, node.op);
  if (at != nullptr && node.op == "Attention" && node.domain.empty()) return standard(context, node, *at);
  if (at != nullptr && node.op == "GroupQueryAttention") return group_query(context, node, *at);
  if (at != nullptr && node.op == "MultiHeadAttention") return multi_head(context, node, *at);
  return refuse(node, "this attention operator is not supported");
}

}  // namespace kvik::native
