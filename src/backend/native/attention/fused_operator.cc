#include "backend/native/attention/fused_operator.h"

#include <cmath>
#include <fmt/format.h>

#include "backend/native/attention/arrange.h"

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
void find_sizes(const AttentionContext& context, FusedOperator& fused, int64_t n_heads, int64_t n_kv_heads) {
  const auto axes = [&](size_t i) -> const Axes& { return context.labels[fused.node.inputs.at(i)].axes; };
  for (size_t i = 0; i < 3; ++i) {
    if (!has(fused.node, i) || context.labels[fused.node.inputs[i]].kind != Label::Kind::kRow)
      throw Refusal(fused.node, "queries, keys and values were expected as its first three inputs, each made of rows");
    if (axes(i).size() != 3 && axes(i).size() != 4)
      throw Refusal(fused.node, fmt::format("its input {} has axes {}, 3 or 4 of them were expected", i, to_string(axes(i))));
  }
  fused.n_heads = axes(0).size() == 4 ? row_size(axes(0)[1]) : n_heads;
  fused.n_kv_heads = axes(1).size() == 4 ? row_size(axes(1)[1]) : n_kv_heads;
  if (fused.n_heads < 1 || fused.n_kv_heads < 1 || fused.n_heads % fused.n_kv_heads != 0)
    throw Refusal(fused.node, fmt::format("{} query heads share {} key heads", fused.n_heads, fused.n_kv_heads));
  const int64_t q = row_elements(axes(0)), k = row_elements(axes(1)), v = row_elements(axes(2));
  fused.key_dim = q / fused.n_heads;
  fused.value_dim = v / fused.n_kv_heads;
  if (fused.key_dim < 1 || fused.value_dim < 1 || q != fused.n_heads * fused.key_dim || k != fused.n_kv_heads * fused.key_dim ||
      v != fused.n_kv_heads * fused.value_dim)
    throw Refusal(fused.node,
                  fmt::format("rows of {}, {} and {} elements are no {} and {} heads", q, k, v, fused.n_heads, fused.n_kv_heads));
}

// A scale of 0 is "not given" for com.microsoft's operators.
float scale_of(const FusedOperator& fused, bool zero_is_none) {
  const float scale = fused.node.float_or("scale", 0.0f);
  if (fused.node.has("scale") && !(zero_is_none && scale == 0)) return scale;
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(fused.key_dim)));
}

std::vector<float> sinks_of(const AttentionContext& context, const FusedOperator& fused, size_t input) {
  if (!has(fused.node, input))
    return std::vector<float>(fused.node.int_or("smooth_softmax", 0) != 0 ? static_cast<size_t>(fused.n_heads) : 0);
  if (context.labels[fused.node.inputs[input]].kind != Label::Kind::kConstant) throw Refusal(fused.node, "its sinks are no constant");
  const Tensor sinks = to_floats(context.constants.get(fused.node.inputs[input]));
  if (sinks.size() != fused.n_heads)
    throw Refusal(fused.node, fmt::format("{} sinks were found for {} heads", sinks.size(), fused.n_heads));
  return {sinks.data<float>().begin(), sinks.data<float>().end()};
}

FusedOperator group_query(const AttentionContext& context, const Node& node) {
  FusedOperator fused{.node = node};
  find_sizes(context, fused, node.int_or("num_heads", 0), node.int_or("kv_num_heads", 0));
  if (node.int_or("do_rotary", 0) != 0) throw Refusal(node, "it rotates queries and keys itself");
  if (node.string_or("k_quant_type", "NONE") != "NONE" || node.string_or("v_quant_type", "NONE") != "NONE")
    throw Refusal(node, "it keeps a quantised cache");
  refuse_input(node, 12, "scale of quantised keys");
  refuse_input(node, 13, "scale of quantised values");
  refuse_input(node, 14, "normalisation of queries");
  refuse_input(node, 15, "normalisation of keys");
  fused.past_key = if_given(node, 3);
  fused.past_value = if_given(node, 4);
  fused.mask = if_given(node, 10);
  fused.function = {scale_of(fused, true), node.float_or("softcap", 0.0f)};
  fused.causal = node.int_or("causal", 1) != 0;
  fused.by_position = true;
  const int64_t window = node.int_or("local_window_size", -1);
  if (window == 0) throw Refusal(node, "its window holds no key");
  if (window > 0) fused.left = window - 1;
  fused.sinks = sinks_of(context, fused, 11);
  return fused;
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

FusedOperator multi_head(const AttentionContext& context, const Node& node) {
  FusedOperator fused{.node = node};
  find_sizes(context, fused, node.int_or("num_heads", 0), node.int_or("num_heads", 0));
  refuse_input(node, 3, "bias of queries, keys and values");
  require_open_padding_mask(context, node, 4);
  refuse_input(node, 9, "cache indirection");
  fused.mask = if_given(node, 5);
  fused.past_key = if_given(node, 6);
  fused.past_value = if_given(node, 7);
  fused.function = {scale_of(fused, true), 0};
  fused.causal = node.int_or("unidirectional", 0) != 0;
  return fused;
}

FusedOperator standard(const AttentionContext& context, const Node& node) {
  FusedOperator fused{.node = node};
  find_sizes(context, fused, node.int_or("q_num_heads", 0), node.int_or("kv_num_heads", 0));
  fused.mask = if_given(node, 3);
  fused.mask_may_be_short = node.opset >= 24;
  fused.past_key = if_given(node, 4);
  fused.past_value = if_given(node, 5);
  fused.valid_keys = if_given(node, 6);
  fused.function = {scale_of(fused, false), node.float_or("softcap", 0.0f)};
  fused.causal = node.int_or("is_causal", 0) != 0;
  fused.left = node.int_or("left_window_size", -1);
  fused.right = node.int_or("right_window_size", -1);
  return fused;
}

}  // namespace

FusedOperator fused_operator(const AttentionContext& context, const Node& node) {
  if (node.op == "Attention" && node.domain.empty()) return standard(context, node);
  if (node.op == "GroupQueryAttention" && node.domain == onnx::kMicrosoft) return group_query(context, node);
  if (node.op == "MultiHeadAttention" && node.domain == onnx::kMicrosoft) return multi_head(context, node);
  throw Refusal(node, "this attention operator is not covered");
}

}  // namespace kvik::native
