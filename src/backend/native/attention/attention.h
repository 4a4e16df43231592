#pragma once

#include "backend/native/label/label.h"

// Third stage: what the attentions of a graph are.
//
// In: attention sites of a labeled graph: products of weights and values, and operators that are an attention.
// Out: an Attend for each, and the values that it reads. Everything between the product of queries and keys and the product of weights and
// values is probed as a function and not read, so masks, windows, biases, caps and guards may be written with any nodes.
// Afterwards: random queries, keys and values gave the same through the graph's own nodes and through the Attend, at several sizes
// (confirm.h). What is read is the smallest value that holds it: keys before they are repeated for groups of heads.
namespace kvik::native {

// What one attention turned out to be. RowIds of `attend` are not known yet: q, k and v are the values that it reads, with its maps from
// there.
struct FoundAttention {
  Attend attend;
  Emitter::Operands operands;
  std::optional<int64_t> limit;  // positions beyond which the graph's own mask fails, or its pattern could not be proved
  // A graph with a past whose new tokens see each other in both directions. `attend` is its meaning token by token, which is the right
  // one only if something says that the file is for one token at a time.
  bool new_tokens_see_all = false;
  // The graph defines several new tokens only with an empty past, and a single new token with any past. Both compute the same function of a
  // row.
  bool whole_prompt = false;
};

// One per site, in order.
Outcome<std::vector<FoundAttention>> match_attentions(CompileState& state, LabeledGraph& labeled);

// Feeds what present gave as past and checks that each append reads it again: proves the pairing of inputs and outputs whatever their
// layout. Returns a note.
Outcome<std::string> verify_past(CompileState& state, std::span<const Append> appends);

}  // namespace kvik::native
