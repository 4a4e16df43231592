#include "backend/native/specialize/expand_rotary.h"

namespace kvik::native {
namespace {

using onnx::Attribute;
using onnx::ValueId;

struct RotaryInputs {
  int positions, cosines, sines;
};

RotaryInputs inputs_of(const onnx::Node& node) {
  return node.domain.empty() ? RotaryInputs{.positions = 3, .cosines = 1, .sines = 2}
                             : RotaryInputs{.positions = 1, .cosines = 2, .sines = 3};
}

bool is_computed(NodeExpander& expander, int table) {
  return expander.has(table) && expander.label(table).kind == Label::Kind::kAuxiliary && expander.rank(table) == 2;
}

// [batch, new]. A single number is the position of the first new token.
ValueId positions_of(NodeExpander& expander, int input) {
  if (expander.rank(input) == 2) return expander.input(input);
  expander.require_equal(
      input, [](const Sizes& sizes) { return sizes.past; }, "first position");
  return expander.positions();
}

// Without num_heads, com.microsoft's operator takes heads as wide as its tables say.
std::vector<Attribute> attributes_of(NodeExpander& expander, int cosines) {
  std::vector<Attribute> attributes;
  for (const Attribute& attribute : expander.node().attributes) {
    const bool kept = attribute.name == "interleaved" || attribute.name == "num_heads" || attribute.name == "rotary_embedding_dim";
    if (kept && expander.node().int_or(attribute.name, 0) != 0) attributes.push_back(attribute);
  }
  if (expander.rank(0) == 3 && expander.node().int_or("num_heads", 0) == 0)
    attributes.push_back({"num_heads", expander.last_size(0) / std::max<int64_t>(1, 2 * expander.last_size(cosines))});
  return attributes;
}

}  // namespace

bool expand_rotary(NodeExpander& expander) {
  const RotaryInputs at = inputs_of(expander.node());
  if (!expander.is_row(0) || !expander.has(at.positions) || expander.is_row(at.positions)) return false;
  const bool computed = is_computed(expander, at.cosines) && is_computed(expander, at.sines);
  if (!computed && expander.rank(at.positions) == 2) return false;
  if (expander.node().int_or("is_packed_batching", 0) != 0 || expander.node().float_or("scale", 1.0f) != 1.0f) return false;
  const ValueId positions = positions_of(expander, at.positions);
  const ValueId cosines = expander.add({.op = "Gather", .inputs = {expander.input(at.cosines), positions}});
  const ValueId sines = expander.add({.op = "Gather", .inputs = {expander.input(at.sines), positions}});
  expander.into(
      {expander.output(0)},
      {.op = "RotaryEmbedding", .inputs = {expander.input(0), cosines, sines}, .attributes = attributes_of(expander, at.cosines)});
  return true;
}

}  // namespace kvik::native
