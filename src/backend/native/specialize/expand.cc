#include "backend/native/specialize/expand.h"

#include <algorithm>
#include <fmt/format.h>

#include "backend/native/specialize/einsum.h"
#include "backend/native/specialize/expand_rotary.h"
#include "backend/native/specialize/node_expander.h"
#include "onnx/attention_operators.h"

namespace kvik::native {
namespace {

using onnx::Attribute;
using onnx::kMicrosoft;
using onnx::kNoValue;
using onnx::ValueId;

// Lookups of tokens, positions and segments, summed and normalized.
Expected<bool> embed_layer_norm(NodeExpander& expander) {
  ValueId positions = expander.input(8);
  if (positions == kNoValue) {
    const ValueId shape = expander.add({.op = "Shape", .inputs = {expander.input(0)}});
    const ValueId length = expander.add({.op = "Gather", .inputs = {shape, expander.scalar(1)}});
    const ValueId range = expander.add({.op = "Range", .inputs = {expander.scalar(0), length, expander.scalar(1)}});
    positions = expander.add({.op = "Unsqueeze", .inputs = {range, expander.ints({0})}});
  }
  const ValueId words = expander.add({.op = "Gather", .inputs = {expander.input(2), expander.input(0)}});
  const ValueId places = expander.add({.op = "Gather", .inputs = {expander.input(3), positions}});
  ValueId sum = expander.add({.op = "Add", .inputs = {words, places}});
  if (expander.has(1) && expander.has(4)) {
    const ValueId segments = expander.add({.op = "Gather", .inputs = {expander.input(4), expander.input(1)}});
    sum = expander.add({.op = "Add", .inputs = {sum, segments}});
  }
  expander.into({expander.output(0)}, {.op = "LayerNormalization",
                                       .inputs = {sum, expander.input(5), expander.input(6)},
                                       .attributes = {{"epsilon", expander.node().float_or("epsilon", 1e-12f)}}});
  if (expander.output(1) != kNoValue && !expander.has(7)) {
    const ValueId batch = expander.add({.op = "Shape", .inputs = {expander.input(0)}, .attributes = {{"end", int64_t{1}}}});
    const ValueId zeros = expander.add({.op = "ConstantOfShape", .inputs = {batch}});
    expander.into({expander.output(1)}, {.op = "Cast", .inputs = {zeros}, .attributes = {{"to", static_cast<int64_t>(DType::kI32)}}});
  } else if (expander.output(1) != kNoValue) {
    expander.into({expander.output(1)},
                  {.op = "ReduceSum", .inputs = {expander.input(7), expander.ints({1})}, .attributes = {{"keepdims", int64_t{0}}}});
  }
  if (expander.output(2) != kNoValue) expander.into({expander.output(2)}, {.op = "Identity", .inputs = {sum}});
  return true;
}

// The roles of the node's inputs.
const onnx::AttentionOperator& signature_of(const NodeExpander& expander) {
  return *onnx::attention_operator(expander.node().domain, expander.node().op);
}

std::vector<Attribute> attention_attributes(const NodeExpander& expander, int64_t n_heads) {
  std::vector<Attribute> attributes = {
      {"q_num_heads", n_heads}, {"kv_num_heads", n_heads}, {"is_causal", expander.node().int_or("unidirectional", 0)}};
  if (const float scale = expander.node().float_or("scale", 0.0f); scale != 0.0f) attributes.push_back({"scale", scale});
  return attributes;
}

// A mask of lengths counts keys; one with two axes marks valid keys. All must be valid.
Expected<> require_no_padding(NodeExpander& expander, int i) {
  if (!expander.has(i)) return {};
  if (expander.is_row(i)) return expander.refuse("the mask depends on the contents of rows");
  KVIK_TRY(const std::vector<Tensor> masks, expander.state().at_sizes(expander.input(i)));
  const bool counts = masks.front().rank() == 1;
  if (!counts) return expander.require_open_mask(i);
  const bool has_past = expander.flat().has_past;
  return expander.require_equal(
      i, [&](const Sizes& sizes) { return has_past ? sizes.total() : sizes.fresh; }, "number of keys");
}

// Rows by one matrix for queries, keys and values: of floats, or of codes with their scales.
ValueId projected_rows(NodeExpander& expander, const onnx::AttentionOperator& at) {
  const ValueId rows = expander.input(at.rows), matrix = expander.input(at.projection);
  if (at.projection_scale >= 0) {
    return expander.add({.op = "MatMulIntegerToFloat",
                         .inputs = {rows, matrix, expander.input(at.rows_scale), expander.input(at.projection_scale),
                                    expander.input(at.rows_zero_point), expander.input(at.projection_zero_point), expander.input(at.bias)},
                         .domain = kMicrosoft,
                         .opset = 1});
  }
  const ValueId product = expander.add({.op = "MatMul", .inputs = {rows, matrix}});
  return expander.has(at.bias) ? expander.add({.op = "Add", .inputs = {product, expander.input(at.bias)}}) : product;
}

// Rows by one matrix for queries, keys and values, then the attention of the standard. The past holds keys and values in one tensor.
Expected<bool> projected_attention(NodeExpander& expander) {
  const onnx::AttentionOperator& at = signature_of(expander);
  if (expander.node().int_or("do_rotary", 0) != 0) return expander.refuse("rotates by unspecified positions");
  KVIK_CHECK(require_no_padding(expander, at.padding_mask));
  const int64_t n_heads = expander.node().int_or(at.query_heads, 0);
  if (n_heads < 1) return expander.refuse("does not specify the number of heads");
  KVIK_TRY(const int64_t width, expander.last_size(at.projection));
  const std::vector<int64_t> parts = expander.node().ints_or("qkv_hidden_sizes", {width / 3, width / 3, width / 3});
  if (parts.size() != 3) return expander.refuse("does not specify three sizes");
  const std::vector<ValueId> qkv = expander.add(
      {.op = "Split", .inputs = {projected_rows(expander, at), expander.ints(parts)}, .attributes = {{"axis", int64_t{-1}}}}, 3);
  std::vector<ValueId> inputs = {qkv[0], qkv[1], qkv[2], expander.input(at.score_mask)};
  if (expander.has(at.past_key_value)) {
    inputs.push_back(expander.add({.op = "Gather", .inputs = {expander.input(at.past_key_value), expander.scalar(0)}}));
    inputs.push_back(expander.add({.op = "Gather", .inputs = {expander.input(at.past_key_value), expander.scalar(1)}}));
  }
  if (expander.output(at.present_key_value) == kNoValue) {
    expander.into({expander.output(0)}, {.op = "Attention", .inputs = inputs, .attributes = attention_attributes(expander, n_heads)});
    return true;
  }
  const ValueId keys = expander.flat().add_value("present_key"), values = expander.flat().add_value("present_value");
  expander.into({expander.output(0), keys, values},
                {.op = "Attention", .inputs = inputs, .attributes = attention_attributes(expander, n_heads)});
  const ValueId stacked_keys = expander.add({.op = "Unsqueeze", .inputs = {keys, expander.ints({0})}});
  const ValueId stacked_values = expander.add({.op = "Unsqueeze", .inputs = {values, expander.ints({0})}});
  expander.into({expander.output(at.present_key_value)},
                {.op = "Concat", .inputs = {stacked_keys, stacked_values}, .attributes = {{"axis", int64_t{0}}}});
  return true;
}

// The same node on other inputs, without the expanded parts.
void rewrite(NodeExpander& expander, std::vector<ValueId> inputs, std::vector<Attribute> attributes) {
  expander.into(expander.node().outputs, {.op = expander.node().op,
                                          .inputs = std::move(inputs),
                                          .attributes = std::move(attributes),
                                          .domain = expander.node().domain,
                                          .opset = expander.node().opset});
}

// Rows [batch, rows, heads, n, size] that hold queries, keys and values (or the last two) of each head side by side.
std::vector<ValueId> unpacked(NodeExpander& expander, int i, int64_t n) {
  const std::vector<ValueId> parts =
      expander.add({.op = "Split",
                    .inputs = {expander.input(i), expander.ints(std::vector<int64_t>(static_cast<size_t>(n), 1))},
                    .attributes = {{"axis", int64_t{3}}}},
                   static_cast<size_t>(n));
  std::vector<ValueId> result;
  for (const ValueId part : parts) result.push_back(expander.add({.op = "Reshape", .inputs = {part, expander.ints({0, 0, -1})}}));
  return result;
}

Expected<bool> multi_head_attention(NodeExpander& expander) {
  const onnx::AttentionOperator& at = signature_of(expander);
  const bool packed = !expander.has(at.key) && !expander.has(at.value), packed_kv = expander.has(at.key) && !expander.has(at.value);
  if (!packed && !packed_kv && !expander.has(at.bias) && !expander.has(at.padding_mask)) return false;
  KVIK_CHECK(expander.require_open_mask(at.padding_mask));
  std::vector<ValueId> inputs = expander.node().inputs;
  inputs.resize(std::max<size_t>(inputs.size(), 3), kNoValue);
  if (packed) {
    KVIK_TRY(const size_t rank, expander.rank(at.query));
    if (rank != 5) return expander.refuse("has neither keys nor values, nor queries with them packed inside");
    const std::vector<ValueId> qkv = unpacked(expander, at.query, 3);
    std::copy(qkv.begin(), qkv.end(), inputs.begin());
  } else if (packed_kv) {
    KVIK_TRY(const size_t rank, expander.rank(at.key));
    if (rank != 5) return expander.refuse("has no values, nor keys with them packed inside");
    const std::vector<ValueId> kv = unpacked(expander, at.key, 2);
    std::copy(kv.begin(), kv.end(), inputs.begin() + 1);
  }
  if (expander.has(at.bias)) {
    if (packed || packed_kv) return expander.refuse("adds a bias to packed rows");
    // Keys and values by heads are a finished cache: their bias is in it already.
    KVIK_TRY(const size_t rank, expander.rank(at.key));
    const bool cached = rank == 4;
    KVIK_TRY(const int64_t q, expander.last_size(at.query));
    KVIK_TRY(const int64_t all, expander.last_size(at.bias));
    const int64_t rest = all - q;
    if (rest <= (cached ? 0 : q)) return expander.refuse("adds a bias that is too short");
    const std::vector<int64_t> sizes = cached ? std::vector{q, rest} : std::vector{q, q, rest - q};
    const std::vector<ValueId> parts = expander.add(
        {.op = "Split", .inputs = {expander.input(at.bias), expander.ints(sizes)}, .attributes = {{"axis", int64_t{0}}}}, sizes.size());
    for (size_t i = 0; i < (cached ? 1 : sizes.size()); ++i)
      inputs[i] = expander.add({.op = "Add", .inputs = {expander.input(static_cast<int>(i)), parts[i]}});
    inputs[static_cast<size_t>(at.bias)] = kNoValue;
  }
  if (expander.has(at.padding_mask)) inputs[static_cast<size_t>(at.padding_mask)] = kNoValue;
  rewrite(expander, std::move(inputs), expander.node().attributes);
  return true;
}

// Queries, keys and values in one tensor are parted; positions that are rotated in are rotated in before. How the caller's cache is kept
// (sliding_window_cache: only the newest positions) changes nothing about what is computed.
Expected<bool> group_query_attention(NodeExpander& expander) {
  const onnx::AttentionOperator& at = signature_of(expander);
  const bool rotates = expander.node().int_or("do_rotary", 0) != 0, packed = !expander.has(at.key) || !expander.has(at.value);
  const bool windowed = expander.node().int_or("sliding_window_cache", 0) != 0;
  if (!rotates && !packed && !windowed) return false;
  KVIK_CHECK(expander.require_equal(
      at.last_key, [](const Sizes& sizes) { return sizes.total() - 1; }, "keys less one"));
  KVIK_CHECK(expander.require_equal(
      at.total_length, [](const Sizes& sizes) { return sizes.total(); }, "number of keys"));
  const int64_t n_heads = expander.node().int_or(at.query_heads, 0), n_kv = expander.node().int_or(at.kv_heads, 0);
  if (n_heads < 1 || n_kv < 1) return expander.refuse("does not specify the number of heads");
  std::vector<ValueId> inputs = expander.node().inputs;
  KVIK_TRY(const int64_t width, expander.last_size(at.query));
  const int64_t size = width / (packed ? n_heads + 2 * n_kv : n_heads);
  if (packed) {
    const std::vector<ValueId> parts =
        expander.add({.op = "Split",
                      .inputs = {expander.input(at.query), expander.ints({n_heads * size, n_kv * size, n_kv * size})},
                      .attributes = {{"axis", int64_t{-1}}}},
                     3);
    std::copy(parts.begin(), parts.end(), inputs.begin());
  }
  if (rotates) {
    KVIK_TRY(const int64_t n_angles, expander.last_size(at.cosines));
    const int64_t rotated = 2 * n_angles;
    const ValueId positions = expander.has(at.positions) ? expander.input(at.positions) : expander.positions();
    for (const int operand : {at.query, at.key}) {
      ValueId& rows = inputs[static_cast<size_t>(operand)];
      std::vector<Attribute> attributes = {{"num_heads", operand == at.query ? n_heads : n_kv},
                                           {"interleaved", expander.node().int_or("rotary_interleaved", 0)}};
      if (rotated < size) attributes.push_back({"rotary_embedding_dim", rotated});
      rows = expander.add({.op = "RotaryEmbedding",
                           .inputs = {rows, positions, expander.input(at.cosines), expander.input(at.sines)},
                           .attributes = std::move(attributes),
                           .domain = kMicrosoft,
                           .opset = 1});
    }
    for (const int rotary : {at.cosines, at.sines, at.positions}) {
      if (static_cast<size_t>(rotary) < inputs.size()) inputs[static_cast<size_t>(rotary)] = kNoValue;
    }
  }
  std::vector<Attribute> attributes;
  for (const Attribute& attribute : expander.node().attributes) {
    if (attribute.name != "do_rotary" && attribute.name != "rotary_interleaved" && attribute.name != "sliding_window_cache")
      attributes.push_back(attribute);
  }
  rewrite(expander, std::move(inputs), std::move(attributes));
  return true;
}

// A factor inside a product of rows with rows is a factor behind it, where an attention's probe sees it.
Expected<bool> factor_of_product(NodeExpander& expander) {
  const float alpha = expander.node().float_or("alpha", 1.0f);
  const bool adds = expander.node().op == "Gemm" && expander.has(2);
  if (!expander.is_row(0) || !expander.is_row(1) || (alpha == 1.0f && !adds)) return false;
  std::vector<Attribute> attributes;
  for (const Attribute& attribute : expander.node().attributes) {
    if (attribute.name != "alpha" && attribute.name != "beta") attributes.push_back(attribute);
  }
  const ValueId product = expander.add({.op = expander.node().op,
                                        .inputs = {expander.input(0), expander.input(1)},
                                        .attributes = attributes,
                                        .domain = expander.node().domain,
                                        .opset = expander.node().opset});
  const auto number = [&](float value) { return expander.flat().add_constant("alpha", Tensor::scalar(value)); };
  if (!adds) {
    expander.into({expander.output(0)}, {.op = "Mul", .inputs = {product, number(alpha)}});
    return true;
  }
  const ValueId scaled = expander.add({.op = "Mul", .inputs = {product, number(alpha)}});
  const ValueId added = expander.add({.op = "Mul", .inputs = {expander.input(2), number(expander.node().float_or("beta", 1.0f))}});
  expander.into({expander.output(0)}, {.op = "Add", .inputs = {scaled, added}});
  return true;
}

// A product of codes of rows with codes of rows: the same of the numbers that they stand for, which an attention's probe sees.
Expected<bool> product_of_codes(NodeExpander& expander) {
  constexpr int kA = 0, kB = 3, kResult = 6;  // each followed by its scale and zero point
  if (!expander.is_row(kA) || !expander.is_row(kB)) return false;
  const auto numbers = [&](int i) {
    return expander.add({.op = "DequantizeLinear", .inputs = {expander.input(i), expander.input(i + 1), expander.input(i + 2)}});
  };
  const ValueId product = expander.add({.op = "MatMul", .inputs = {numbers(kA), numbers(kB)}});
  expander.into({expander.output(0)}, {.op = "QuantizeLinear", .inputs = {product, expander.input(kResult), expander.input(kResult + 1)}});
  return true;
}

// A tensor without elements does not change a concatenation.
Expected<bool> has_no_elements(NodeExpander& expander, int i) {
  const Label& label = expander.label(i);
  if (label.kind == Label::Kind::kRow) return label.is_empty;
  if (label.kind == Label::Kind::kConstant) return checked_elements(label.dims) == 0;
  KVIK_TRY(const std::vector<Tensor> tensors, expander.state().at_sizes(expander.input(i)));
  return std::ranges::all_of(tensors, [](const Tensor& tensor) { return tensor.size() == 0; });
}

Expected<bool> drop_empty_inputs(NodeExpander& expander) {
  std::vector<ValueId> kept;
  bool any_rows = false;
  const std::vector<ValueId>& inputs = expander.node().inputs;
  for (int i = 0; static_cast<size_t>(i) < inputs.size(); ++i) any_rows = any_rows || expander.is_row(i);
  for (int i = 0; any_rows && static_cast<size_t>(i) < inputs.size(); ++i) {
    KVIK_TRY(const bool is_empty, has_no_elements(expander, i));
    if (!is_empty) kept.push_back(expander.input(i));
  }
  if (kept.empty() || kept.size() == inputs.size()) return false;
  rewrite(expander, std::move(kept), expander.node().attributes);
  return true;
}

}  // namespace

Expected<bool> expand_composite_op(CompileState& state, onnx::NodeId id) {
  const onnx::Node& node = state.node(id);
  using Expansion = Expected<bool> (*)(NodeExpander&);
  static const std::map<std::pair<std::string_view, std::string_view>, Expansion> known = {
      {{kMicrosoft, "EmbedLayerNormalization"}, embed_layer_norm},
      {{kMicrosoft, "Attention"}, projected_attention},
      {{kMicrosoft, "QAttention"}, projected_attention},
      {{kMicrosoft, "MultiHeadAttention"}, multi_head_attention},
      {{kMicrosoft, "GroupQueryAttention"}, group_query_attention},
      {{kMicrosoft, "FusedMatMul"}, factor_of_product},
      {{kMicrosoft, "TransposeMatMul"}, factor_of_product},
      {{kMicrosoft, "RotaryEmbedding"}, expand_rotary},
      {{"", "RotaryEmbedding"}, expand_rotary},
      {{"", "Concat"}, drop_empty_inputs},
      {{"", "Einsum"}, expand_einsum},
      {{"", "Gemm"}, factor_of_product},
      {{"", "QLinearMatMul"}, product_of_codes},
  };
  const auto found = known.find({node.domain, node.op});
  if (found == known.end()) return false;
  NodeExpander expander(state, id);
  return found->second(expander);
}

}  // namespace kvik::native
