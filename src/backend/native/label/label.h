#pragma once

#include <optional>

#include "backend/native/graph/outcome.h"
#include "backend/native/label/emitter.h"
#include "backend/native/label/value_numbers.h"
#include "backend/native/probe/compile_state.h"

// Second stage: proves that the graph works on each row by itself.
//
// In: a flat graph (CompileState) and the hints of earlier attempts.
// Out: a label for every value that the output is computed from, row ops, and the places where rows meet other rows: attention sites,
// appends to the past, and auxiliary operands.
// Afterwards: every row op works on one row by itself, if each attention site is an attention (attention/) and each auxiliary operand a
// function of the position (tables/). Labels no longer change.
//
// Which labels may change while the stage runs: a rule sets the labels of its node's outputs, once. Only token_free.h changes one later,
// from row to auxiliary, of a value that was shown not to depend on tokens; nodes that read it as a row stay right, because a row value may
// be anything. Axes of past inputs that turn out to be others than assumed are never changed in place: they are a hint for the next
// attempt.
namespace kvik::native {

// A product of attention weights and values, or an attention operator. attention/ infers its operands and meaning.
struct AttentionSite {
  onnx::NodeId node = onnx::kNoNode;
  int weights_input = -1;  // the input of the product with the attention weights; -1: an attention operator
  int attend = -1;         // index into Program::attends
};

// A concatenation of the past and new rows, for keys or values.
struct Append {
  onnx::ValueId past = onnx::kNoValue, fresh = onnx::kNoValue;
};

struct LabeledGraph {
  Emitter emitter;
  ValueNumbers numbers;
  std::vector<AttentionSite> attentions;
  std::vector<Append> appends;
  bool newest_last = false;                 // caches of fixed size end with the newest position; otherwise they begin with the oldest
  std::vector<TokenId> unsupported_tokens;  // tokens for which the program would be wrong
  std::vector<std::string> notes;
  std::optional<Refusal> past_not_compared;  // refusals of outputs other than the requested one
};

// `output`: the value to compute. May return a Retry or a Switch.
Outcome<LabeledGraph> label(CompileState& state, onnx::ValueId output, const Hints& hints);

}  // namespace kvik::native
