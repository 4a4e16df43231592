#pragma once

#include <memory>

#include "api/state.h"
#include "api/target_setup.h"
#include "engine/speculation.h"

namespace kvik::api {

// Throws Error(kBadArgument) if options exclude each other or the draft model does not match.
void check_speculation(const Model::State& model, const GenerateOptions& options, const TargetSetup& setup);

// Whether make_speculation() also computes the prompt with a draft model.
bool uses_draft(const Model::State& model, const GenerateOptions& options);

// Called after new_strategy(). Text that a constraint forces is always proposed; other tokens only if the options request it. Null if there
// is nothing to propose, or if the backend cannot speculate without changing the result (logged if speculation was requested).
std::unique_ptr<engine::Speculation> make_speculation(const Model::State& model, const GenerateOptions& options, const TargetSetup& setup,
                                                      int capacity);

}  // namespace kvik::api
