#pragma once

#include <optional>

#include "backend/native/graph/outcome.h"
#include "backend/native/label/emitter.h"
#include "backend/native/label/value_numbers.h"
#include "backend/native/probe/compile_state.h"

// Second stage: proves that the graph works on each row by itself.
//
// In: a flat graph (CompileState) and what earlier attempts learned about it.
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

// Weights by values, or an operator that is an attention. What it reads and means is for attention/ to find out.
struct AttentionSite {
  onnx::NodeId node = onnx::kNoNode;
  int weights_input = -1;  // which input of a product holds the weights; -1: an attention operator
  int attend = -1;         // index into Program::attends
};

// A concatenation of the past and what is new, on the key side.
struct Append {
  onnx::ValueId past = onnx::kNoValue, fresh = onnx::kNoValue;
};

struct LabeledGraph {
  Emitter emitter;
  ValueNumbers numbers;
  std::vector<AttentionSite> attentions;
  std::vector<Append> appends;
  bool newest_last = false;                 // caches of fixed size end with the newest position, else they begin with the oldest
  std::vector<TokenId> unsupported_tokens;  // for which the program would be wrong
  std::vector<std::string> notes;
  std::optional<Refusal> past_not_compared;  // why outputs other than the wanted one could not be labeled
};

// `output`: the value that the program is for. May return a Retry, and a Switch.
Outcome<LabeledGraph> label(CompileState& state, onnx::ValueId output, const Hints& hints);

}  // namespace kvik::native
