#pragma once

#include "analysis/signature.h"
#include "backend/native/graph/outcome.h"
#include "backend/native/probe/compile_state.h"

// Conditions that change with the length of the sequence (LongRoPE: a second set of position tables past a threshold). Length switches are
// detected here: the compiler takes the branch of one side; other backends recompute a sequence that crosses the length.
namespace kvik::native {

// Determines which branch of an If is taken. Its condition must not depend on rows, must be the same at the three sizes, and may change
// once with the number of tokens, up to the context's length: then a Switch is returned, unless the options select a side.
Outcome<bool> resolve_if(CompileState& state, onnx::NodeId node);

// The number of tokens after which the decoder of a model changes its behavior; 0: none was found. Only evaluates the graph's conditions;
// compiles nothing.
int64_t length_switch_of(const analysis::Signature& signature);

}  // namespace kvik::native
