#pragma once

#include "backend/native/label/label.h"

// Third stage: infers what each attention of a graph computes.
//
// In: attention sites of a labeled graph: products of attention weights and values, and attention operators.
// Out: an Attend for each, and the values that it reads. Everything between the product of queries and keys and the product of weights and
// values is probed as a function and not pattern-matched, so masks, windows, biases, caps and guards may be written with any nodes.
// Afterwards: for random queries, keys and values, the graph's own nodes and the Attend computed the same results at several sizes
// (confirm.h). An Attend reads the smallest value that contains its operand: keys before they are repeated for groups of heads.
namespace kvik::native {

// One inferred attention. The RowIds of `attend` are not known yet: q, k and v are the values that it reads, and its maps refer to them.
struct FoundAttention {
  Attend attend;
  Emitter::Operands operands;
  std::optional<int64_t> limit;  // positions beyond which the graph's own mask fails, or its pattern could not be proved
  // A graph with a past whose new tokens attend to each other in both directions. `attend` describes it for one token at a time, which is
  // correct only if the file is declared to take one token at a time.
  bool new_tokens_see_all = false;
  // The graph defines several new tokens only with an empty past, and a single new token with any past. Both compute the same function of a
  // row.
  bool whole_prompt = false;
};

// One per site, in order.
Outcome<std::vector<FoundAttention>> match_attentions(CompileState& state, LabeledGraph& labeled);

// Feeds the present outputs back as the past and checks that each append reads them: proves the pairing of inputs and outputs for any
// layout. Returns a note.
Outcome<std::string> verify_past(CompileState& state, std::span<const Append> appends);

}  // namespace kvik::native
