#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/signature.h"
#include "backend/native/plan/plan.h"

namespace kvik::native {

// The plans of a model, one a stage. A stage that is no program over rows has the reason instead; somebody else has to run it.
struct Stages {
  std::shared_ptr<const Plan> decoder;
  std::shared_ptr<const Plan> encoder;    // of an encoder-decoder
  std::shared_ptr<const Plan> embedding;  // where the decoder takes embeddings from a file of its own
  std::string encoder_refused, embedding_refused;
};

struct StageOptions {
  int64_t context = 0;
  std::vector<std::string> no_fuse;
};

// Throws Refusal where the decoder is no program over rows.
Stages compile_stages(const analysis::Signature& signature, const StageOptions& options);

// After how many tokens the decoder changes its ways, for whoever runs the graph as it is; 0: it was not seen to.
int64_t length_switch_of(const analysis::Signature& signature);

// Lowers, fuses and splits.
std::shared_ptr<const Plan> make_plan(const Program& program, std::span<const std::string> no_fuse);

}  // namespace kvik::native
