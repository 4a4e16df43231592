#pragma once

#include "analysis/signature.h"
#include "backend/native/graph/outcome.h"
#include "backend/native/graph/program.h"
#include "backend/native/probe/compile_state.h"

// The driver of the compiler: specialize, label, attention, tables, in this order, for one graph; and which graph of a model defines it.
namespace kvik::native {

// Positions that are probed at most, whatever a config file or an option says. A program is proved no farther than it was probed, so its
// Program::max_positions is no larger either.
inline constexpr int64_t kMostPositions = int64_t{1} << 20;

// The graph of one file as a program over rows. The file must outlive the program. Never returns a Retry: this is the one place that tries
// again. Each attempt after the first starts from hints that the one before did not have (axes of a past input, or which side keys are on),
// and hints are never taken back; a graph whose hints contradict each other is refused after a fixed number of attempts.
Outcome<Program> compile_file(const analysis::File& file, const CompileOptions& options = {});

// The graph that defines a model's decoder: the one without a past, if there is one, is tried first; then the others, then token by
// token. Otherwise the first Switch that was found, or the first refusal.
struct DecoderOptions {
  int64_t context = 0;  // 0: what the model says
  int64_t beyond = 0;   // see CompileOptions
};
Outcome<Program> compile_decoder(const analysis::Signature& signature, const DecoderOptions& options = {});

// The encoder of an encoder-decoder, or a model that is one.
Outcome<Program> compile_encoder(const analysis::Signature& signature);

}  // namespace kvik::native
