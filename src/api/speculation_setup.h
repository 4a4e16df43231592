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

// Null if the options do not ask for it, or if the backend cannot compute tokens ahead without changing the result, which is logged.
std::unique_ptr<engine::Speculation> make_speculation(const Model::State& model, const GenerateOptions& options, size_t max_length);

}  // namespace kvik::api
