#pragma once

#include <memory>

#include "api/state.h"
#include "api/target_setup.h"
#include "engine/speculation.h"

namespace kvik::api {

// Throws Error(kBadArgument) if options exclude each other or the draft model does not fit.
void check_speculation(const Model::State& model, const GenerateOptions& options, const TargetSetup& setup);

// Whether make_speculation() gives a draft model the prompt too.
bool uses_draft(const Model::State& model, const GenerateOptions& options);

// After new_strategy(). Text that a constraint forces is always computed ahead; the rest if the options ask for it. Null if there is
// nothing to propose, or if the backend cannot compute tokens ahead without changing the result, which is logged if it was asked for.
std::unique_ptr<engine::Speculation> make_speculation(const Model::State& model, const GenerateOptions& options, const TargetSetup& setup,
                                                      int capacity);

}  // namespace kvik::api
