#pragma once

#include <optional>

#include "analysis/signature.h"
#include "backend/native/graph/program.h"

namespace kvik::native {

struct CompileOptions {
  bool cached_branch = false;  // of a merged file; the first-step branch alone defines the model
  bool one_token = false;      // second attempt, for graphs with a past: right token by token
  bool one_sequence = false;   // for graphs that declare a batch of one, and have it in their shapes
  int64_t context = 0;         // positions that tables and masks must cover; 0: what the model says
  int64_t beyond = 0;          // see AttentionContext
};

// The graph of one file as a program over rows. The file must outlive the program.
// Throws Refusal naming the node where the graph is no such program, Error where it is broken.
Program compile_file(const analysis::File& file, const CompileOptions& options = {});

// The graph that defines a model's decoder: the one without a past where there is one, tried first; then the others, then token by
// token. Throws the refusal of the best attempt, a LengthSwitch where there was one.
Program compile_decoder(const analysis::Signature& signature, int64_t context = 0, int64_t beyond = 0);

// The encoder of an encoder-decoder, or a model that is one.
Program compile_encoder(const analysis::Signature& signature);

}  // namespace kvik::native
