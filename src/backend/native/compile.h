#pragma once

#include "analysis/signature.h"
#include "backend/native/graph/outcome.h"
#include "backend/native/graph/program.h"
#include "backend/native/probe/compile_state.h"

// The driver of the compiler: specialize, label, attention, tables, in this order, for one graph; and which graph of a model defines it.
namespace kvik::native {

// Maximum number of positions to probe, even if a config file or an option requests more. A program is valid only as far as it was probed,
// so this also limits Program::max_positions.
inline constexpr int64_t kMostPositions = int64_t{1} << 20;

// The graph of one file as a program over rows. The file must outlive the program. Never returns a Retry, because this is the only place
// that retries. Each attempt after the first has hints that the previous one did not have (axes of a past input, or which operand has the
// keys). Hints are never removed; a graph whose hints contradict each other is refused after a fixed number of attempts.
Outcome<Program> compile_file(const analysis::File& file, const CompileOptions& options = {});

// Compiles a model's decoder: tries the graph without a past first, if there is one, then the others, then one token at a time. If all
// fail, returns the first Switch, or the first refusal.
struct DecoderOptions {
  int64_t context = 0;  // 0: the model's maximum
  int64_t beyond = 0;   // see CompileOptions
};
Outcome<Program> compile_decoder(const analysis::Signature& signature, const DecoderOptions& options = {});

// Compiles the encoder of an encoder-decoder, or an encoder model.
Outcome<Program> compile_encoder(const analysis::Signature& signature);

}  // namespace kvik::native
