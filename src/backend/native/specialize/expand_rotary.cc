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

Expected<bool> is_computed(NodeExpander& expander, int table) {
  if (!expander.has(table) || expander.label(table).kind != Label::Kind::kAuxiliary) return false;
  KVIK_TRY(const size_t rank, expander.rank(table));
  return rank == 2;
}

// [batch, new]. A single number is the position of the first new token.
Expected<ValueId> positions_of(NodeExpander& expander, int input) {
  KVIK_TRY(const size_t rank, expander.rank(input));
  if (rank == 2) return expander.input(input);
  KVIK_CHECK(expander.require_equal(
      input, [](const Sizes& sizes) { return sizes.past; }, "first position"));
  return expander.positions();
}

// Without num_heads, com.microsoft's operator derives the head size from its tables.
Expected<std::vector<Attribute>> attributes_of(NodeExpander& expander, int cosines) {
  std::vector<Attribute> attributes;
  for (const Attribute& attribute : expander.node().attributes) {
    const bool kept = attribute.name == "interleaved" || attribute.name == "num_heads" || attribute.name == "rotary_embedding_dim";
    if (kept && expander.node().int_or(attribute.name, 0) != 0) attributes.push_back(attribute);
  }
  KVIK_TRY(const size_t rank, expander.rank(0));
  if (rank == 3 && expander.node().int_or("num_heads", 0) == 0) {
    KVIK_TRY(const int64_t width, expander.last_size(0));
    KVIK_TRY(const int64_t n_angles, expander.last_size(cosines));
    attributes.push_back({"num_heads", width / std::max<int64_t>(1, 2 * n_angles)});
  }
  return attributes;
}

}  // namespace

Expected<bool> expand_rotary(NodeExpander& expander) {
  const RotaryInputs at = inputs_of(expander.node());
  if (!expander.is_row(0) || !expander.has(at.positions) || expander.is_row(at.positions)) return false;
  KVIK_TRY(const bool has_cosines, is_computed(expander, at.cosines));
  KVIK_TRY(const bool has_sines, is_computed(expander, at.sines));
  KVIK_TRY(const size_t position_axes, expander.rank(at.positions));
  if (!(has_cosines && has_sines) && position_axes == 2) return false;
  if (expander.node().int_or("is_packed_batching", 0) != 0 || expander.node().float_or("scale", 1.0f) != 1.0f) return false;
  KVIK_TRY(const ValueId positions, positions_of(expander, at.positions));
  KVIK_TRY(std::vector<Attribute> attributes, attributes_of(expander, at.cosines));
  const ValueId cosines = expander.add({.op = "Gather", .inputs = {expander.input(at.cosines), positions}});
  const ValueId sines = expander.add({.op = "Gather", .inputs = {expander.input(at.sines), positions}});
  expander.into({expander.output(0)},
                {.op = "RotaryEmbedding", .inputs = {expander.input(0), cosines, sines}, .attributes = std::move(attributes)});
  return true;
}

}  // namespace kvik::native
