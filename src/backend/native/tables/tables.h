#pragma once

#include "backend/native/graph/outcome.h"
#include "backend/native/label/emitter.h"
#include "backend/native/probe/compile_state.h"

// Fourth stage: resolves auxiliary operands.
//
// In: row ops whose attentions are inferred.
// Out: the program, in which every auxiliary operand that an op reads is a constant, or a table with one row per position.
// Afterwards: each table was compared with the graph at many sizes and batch entries, for early and late positions, and no difference was
// found; Program::max_positions does not exceed any table's limit.
namespace kvik::native {

Outcome<Program> make_tables(CompileState& state, Emitter emitter);

}  // namespace kvik::native
