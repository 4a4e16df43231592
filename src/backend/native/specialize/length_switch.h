#pragma once

#include "analysis/signature.h"
#include "backend/native/graph/outcome.h"
#include "backend/native/probe/compile_state.h"

// Conditions that change with the length of the sequence (LongRoPE: a second set of position tables past a threshold). Everything that is
// known about length switches starts here: the compiler takes the branch of one side, other backends run a sequence that crosses the
// length again from its start.
namespace kvik::native {

// Which branch of an If is taken. Its condition must not depend on rows, must be the same at the three sizes, and may change once with the
// number of tokens, up to the context's length: then a Switch is returned, unless the options say which side is wanted.
Outcome<bool> resolve_if(CompileState& state, onnx::NodeId node);

// After how many tokens the decoder of a model changes its behavior; 0: no such length was found. Evaluates the conditions of the graph
// that are computed from its inputs, and compiles nothing.
int64_t length_switch_of(const analysis::Signature& signature);

}  // namespace kvik::native
