#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/signature.h"
#include "backend/native/graph/outcome.h"
#include "backend/native/make_plan.h"

namespace kvik::native {

// The plans of a model, one per stage. A stage that is not a program over rows has the reason instead; another backend must run it.
struct Stages {
  std::shared_ptr<const Plan> decoder;
  std::shared_ptr<const Plan> encoder;    // of an encoder-decoder
  std::shared_ptr<const Plan> embedding;  // if the decoder takes embeddings from a separate file
  std::string encoder_refused, embedding_refused;
};

struct StageOptions {
  int64_t context = 0;
  std::vector<std::string> no_fuse;
};

// Refuses a model whose decoder is not a program over rows.
Outcome<Stages> compile_stages(const analysis::Signature& signature, const StageOptions& options);

// The plan of Signature::embedder() that outputs hidden states, even if the file also outputs logits.
Outcome<std::shared_ptr<const Plan>> compile_hidden_states(analysis::Signature signature, const StageOptions& options);

}  // namespace kvik::native
