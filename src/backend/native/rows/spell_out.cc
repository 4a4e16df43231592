#include "backend/native/rows/spell_out.h"

#include <cmath>
#include <fmt/format.h>
#include <functional>

#include "backend/native/rows/einsum.h"
#include "backend/native/rows/rules.h"
#include "backend/native/rows/speller.h"

namespace kvik::native {
namespace {

using onnx::Attribute;
using onnx::kNoValue;
using onnx::ValueId;

// Lookups of tokens, positions and segments, summed and normalised.
bool embed_layer_norm(Speller& s) {
  ValueId positions = s.input(8);
  if (positions == kNoValue) {
    const ValueId shape = s.add({.op = "Shape", .inputs = {s.input(0)}});
    const ValueId length = s.add({.op = "Gather", .inputs = {shape, s.scalar(1)}});
    const ValueId range = s.add({.op = "Range", .inputs = {s.scalar(0), length, s.scalar(1)}});
    positions = s.add({.op = "Unsqueeze", .inputs = {range, s.ints({0})}});
  }
  const ValueId words = s.add({.op = "Gather", .inputs = {s.input(2), s.input(0)}});
  const ValueId places = s.add({.op = "Gather", .inputs = {s.input(3), positions}});
  ValueId sum = s.add({.op = "Add", .inputs = {words, places}});
  if (s.has(1) && s.has(4)) {
    const ValueId segments = s.add({.op = "Gather", .inputs = {s.input(4), s.input(1)}});
    sum = s.add({.op = "Add", .inputs = {sum, segments}});
  }
  s.into({s.output(0)}, {.op = "LayerNormalization",
                         .inputs = {sum, s.input(5), s.input(6)},
                         .attributes = {{"epsilon", s.node().float_or("epsilon", 1e-12f)}}});
  if (s.output(1) != kNoValue && !s.has(7)) {
    const ValueId batch = s.add({.op = "Shape", .inputs = {s.input(0)}, .attributes = {{"end", int64_t{1}}}});
    const ValueId zeros = s.add({.op = "ConstantOfShape", .inputs = {batch}});
    s.into({s.output(1)}, {.op = "Cast", .inputs = {zeros}, .attributes = {{"to", static_cast<int64_t>(DType::kI32)}}});
  } else if (s.output(1) != kNoValue) {
    s.into({s.output(1)}, {.op = "ReduceSum", .inputs = {s.input(7), s.ints({1})}, .attributes = {{"keepdims", int64_t{0}}}});
  }
  if (s.output(2) != kNoValue) s.into({s.output(2)}, {.op = "Identity", .inputs = {sum}});
  return true;
}

std::vector<Attribute> attention_attributes(const Speller& s, int64_t n_heads) {
  std::vector<Attribute> attributes = {
      {"q_num_heads", n_heads}, {"kv_num_heads", n_heads}, {"is_causal", s.node().int_or("unidirectional", 0)}};
  if (const float scale = s.node().float_or("scale", 0.0f); scale != 0.0f) attributes.push_back({"scale", scale});
  return attributes;
}

// A mask of lengths counts keys; one of two axes says which are there. All of them are.
void require_no_padding(Speller& s, size_t i) {
  if (!s.has(i)) return;
  if (s.is_row(i)) s.refuse("the mask depends on the contents of rows");
  const bool counts = s.walk().at_sizes(s.input(i)).front().rank() == 1;
  if (!counts) return s.require_open_mask(i);
  const bool has_past = s.walk().flat().has_past;
  s.require_equal(
      i, [&](const Sizes& sizes) { return has_past ? sizes.total() : sizes.fresh; }, "number of keys");
}

// Rows by one matrix for queries, keys and values, then the attention of the standard. The past holds keys and values in one tensor.
bool projected_attention(Speller& s) {
  if (s.node().int_or("do_rotary", 0) != 0) s.refuse("rotates by positions that it does not say");
  require_no_padding(s, 3);
  const int64_t n_heads = s.node().int_or("num_heads", 0);
  if (n_heads < 1) s.refuse("does not say how many heads there are");
  const int64_t width = s.last_size(1);
  const std::vector<int64_t> parts = s.node().ints_or("qkv_hidden_sizes", {width / 3, width / 3, width / 3});
  if (parts.size() != 3) s.refuse("does not name three sizes");
  ValueId rows = s.add({.op = "MatMul", .inputs = {s.input(0), s.input(1)}});
  if (s.has(2)) rows = s.add({.op = "Add", .inputs = {rows, s.input(2)}});
  const std::vector<ValueId> qkv = s.add({.op = "Split", .inputs = {rows, s.ints(parts)}, .attributes = {{"axis", int64_t{-1}}}}, 3);
  std::vector<ValueId> inputs = {qkv[0], qkv[1], qkv[2], s.input(5)};
  if (s.has(4)) {
    inputs.push_back(s.add({.op = "Gather", .inputs = {s.input(4), s.scalar(0)}}));
    inputs.push_back(s.add({.op = "Gather", .inputs = {s.input(4), s.scalar(1)}}));
  }
  if (s.output(1) == kNoValue) {
    s.into({s.output(0)}, {.op = "Attention", .inputs = inputs, .attributes = attention_attributes(s, n_heads)});
    return true;
  }
  const ValueId keys = s.walk().flat().add_value("present_key"), values = s.walk().flat().add_value("present_value");
  s.into({s.output(0), keys, values}, {.op = "Attention", .inputs = inputs, .attributes = attention_attributes(s, n_heads)});
  const ValueId stacked_keys = s.add({.op = "Unsqueeze", .inputs = {keys, s.ints({0})}});
  const ValueId stacked_values = s.add({.op = "Unsqueeze", .inputs = {values, s.ints({0})}});
  s.into({s.output(1)}, {.op = "Concat", .inputs = {stacked_keys, stacked_values}, .attributes = {{"axis", int64_t{0}}}});
  return true;
}

// The same node on other inputs, without what has been spelled out.
void rewrite(Speller& s, std::vector<ValueId> inputs, std::vector<Attribute> attributes) {
  s.into(s.node().outputs, {.op = s.node().op,
                            .inputs = std::move(inputs),
                            .attributes = std::move(attributes),
                            .domain = s.node().domain,
                            .opset = s.node().opset});
}

// Rows [batch, rows, heads, n, size] that hold queries, keys and values (or the last two) of each head side by side.
std::vector<ValueId> unpacked(Speller& s, size_t i, int64_t n) {
  const std::vector<ValueId> parts = s.add({.op = "Split",
                                            .inputs = {s.input(i), s.ints(std::vector<int64_t>(static_cast<size_t>(n), 1))},
                                            .attributes = {{"axis", int64_t{3}}}},
                                           static_cast<size_t>(n));
  std::vector<ValueId> result;
  for (const ValueId part : parts) result.push_back(s.add({.op = "Reshape", .inputs = {part, s.ints({0, 0, -1})}}));
  return result;
}

bool multi_head_attention(Speller& s) {
  const bool packed = !s.has(1) && !s.has(2), packed_kv = s.has(1) && !s.has(2);
  if (!packed && !packed_kv && !s.has(3) && !s.has(4)) return false;
  s.require_open_mask(4);
  std::vector<ValueId> inputs = s.node().inputs;
  inputs.resize(std::max<size_t>(inputs.size(), 3), kNoValue);
  if (packed) {
    if (s.rank(0) != 5) s.refuse("has neither keys nor values, nor queries with them packed inside");
    const std::vector<ValueId> qkv = unpacked(s, 0, 3);
    std::copy(qkv.begin(), qkv.end(), inputs.begin());
  } else if (packed_kv) {
    if (s.rank(1) != 5) s.refuse("has no values, nor keys with them packed inside");
    const std::vector<ValueId> kv = unpacked(s, 1, 2);
    std::copy(kv.begin(), kv.end(), inputs.begin() + 1);
  }
  if (s.has(3)) {
    if (packed || packed_kv) s.refuse("adds a bias to packed rows");
    // Keys and values by heads are a finished cache: their bias is in it already.
    const bool cached = s.rank(1) == 4;
    const int64_t q = s.last_size(0), rest = s.last_size(3) - q;
    if (rest <= (cached ? 0 : q)) s.refuse("adds a bias that is too short");
    const std::vector<int64_t> sizes = cached ? std::vector{q, rest} : std::vector{q, q, rest - q};
    const std::vector<ValueId> parts =
        s.add({.op = "Split", .inputs = {s.input(3), s.ints(sizes)}, .attributes = {{"axis", int64_t{0}}}}, sizes.size());
    for (size_t i = 0; i < (cached ? 1 : sizes.size()); ++i) inputs[i] = s.add({.op = "Add", .inputs = {s.input(i), parts[i]}});
    inputs[3] = kNoValue;
  }
  if (inputs.size() > 4) inputs[4] = kNoValue;
  rewrite(s, std::move(inputs), s.node().attributes);
  return true;
}

// Queries, keys and values in one tensor are parted; positions that are rotated in are rotated in before.
bool group_query_attention(Speller& s) {
  const bool rotates = s.node().int_or("do_rotary", 0) != 0, packed = !s.has(1) || !s.has(2);
  if (!rotates && !packed) return false;
  s.require_equal(
      5, [](const Sizes& sizes) { return sizes.total() - 1; }, "keys less one");
  s.require_equal(
      6, [](const Sizes& sizes) { return sizes.total(); }, "number of keys");
  const int64_t n_heads = s.node().int_or("num_heads", 0), n_kv = s.node().int_or("kv_num_heads", 0);
  if (n_heads < 1 || n_kv < 1) s.refuse("does not say how many heads there are");
  std::vector<ValueId> inputs = s.node().inputs;
  const int64_t size = s.last_size(0) / (packed ? n_heads + 2 * n_kv : n_heads);
  if (packed) {
    const std::vector<ValueId> parts = s.add(
        {.op = "Split", .inputs = {s.input(0), s.ints({n_heads * size, n_kv * size, n_kv * size})}, .attributes = {{"axis", int64_t{-1}}}},
        3);
    std::copy(parts.begin(), parts.end(), inputs.begin());
  }
  if (rotates) {
    const int64_t rotated = s.last_size(7) * 2;
    const ValueId positions = s.has(9) ? s.input(9) : s.positions();
    for (const size_t i : {size_t{0}, size_t{1}}) {
      std::vector<Attribute> attributes = {{"num_heads", i == 0 ? n_heads : n_kv},
                                           {"interleaved", s.node().int_or("rotary_interleaved", 0)}};
      if (rotated < size) attributes.push_back({"rotary_embedding_dim", rotated});
      inputs[i] = s.add({.op = "RotaryEmbedding",
                         .inputs = {inputs[i], positions, s.input(7), s.input(8)},
                         .attributes = std::move(attributes),
                         .domain = kMicrosoft,
                         .opset = 1});
    }
    for (size_t i = 7; i <= 9 && i < inputs.size(); ++i) inputs[i] = kNoValue;
  }
  std::vector<Attribute> attributes;
  for (const Attribute& attribute : s.node().attributes) {
    if (attribute.name != "do_rotary" && attribute.name != "rotary_interleaved") attributes.push_back(attribute);
  }
  rewrite(s, std::move(inputs), std::move(attributes));
  return true;
}

// A factor inside a product of rows with rows is a factor behind it, where an attention's probe sees it.
bool factor_of_product(Speller& s) {
  const float alpha = s.node().float_or("alpha", 1.0f);
  const bool adds = s.node().op == "Gemm" && s.has(2);
  if (!s.is_row(0) || !s.is_row(1) || (alpha == 1.0f && !adds)) return false;
  std::vector<Attribute> attributes;
  for (const Attribute& attribute : s.node().attributes) {
    if (attribute.name != "alpha" && attribute.name != "beta") attributes.push_back(attribute);
  }
  const ValueId product = s.add({.op = s.node().op,
                                 .inputs = {s.input(0), s.input(1)},
                                 .attributes = attributes,
                                 .domain = s.node().domain,
                                 .opset = s.node().opset});
  const auto number = [&](float value) { return s.walk().flat().add_constant("alpha", Tensor::scalar(value)); };
  if (!adds) {
    s.into({s.output(0)}, {.op = "Mul", .inputs = {product, number(alpha)}});
    return true;
  }
  const ValueId scaled = s.add({.op = "Mul", .inputs = {product, number(alpha)}});
  const ValueId added = s.add({.op = "Mul", .inputs = {s.input(2), number(s.node().float_or("beta", 1.0f))}});
  s.into({s.output(0)}, {.op = "Add", .inputs = {scaled, added}});
  return true;
}

}  // namespace

bool spell_out(Walk& walk, onnx::NodeId id) {
  const onnx::Node& node = walk.flat().graph.nodes[static_cast<size_t>(id)];
  using Spell = bool (*)(Speller&);
  static const std::map<std::pair<std::string_view, std::string_view>, Spell> known = {
      {{kMicrosoft, "EmbedLayerNormalization"}, embed_layer_norm},
      {{kMicrosoft, "Attention"}, projected_attention},
      {{kMicrosoft, "MultiHeadAttention"}, multi_head_attention},
      {{kMicrosoft, "GroupQueryAttention"}, group_query_attention},
      {{kMicrosoft, "FusedMatMul"}, factor_of_product},
      {{kMicrosoft, "TransposeMatMul"}, factor_of_product},
      {{"", "Einsum"}, spell_einsum},
      {{"", "Gemm"}, factor_of_product},
  };
  const auto found = known.find({node.domain, node.op});
  if (found == known.end()) return false;
  Speller speller(walk, id);
  return found->second(speller);
}

}  // namespace kvik::native
