#pragma once

#include <optional>

#include "backend/native/compiled_file.h"
#include "base/log.h"
#include "kvik/compile_cache.h"

// The folder of compiled models (docs/compile-cache.md). No function throws if the folder or a file cannot be read or written: the model is
// then compiled as if there were no cache, and one message is logged.
namespace kvik::native {

// Nullopt if there is no matching file.
std::optional<CompiledModel> find_compiled(const CompileCache& cache, const CompiledKey& key, const analysis::Signature& signature,
                                           const StageOptions& options, WeightChoice weights, const Log& log);

bool is_worth_keeping(const CompileCache& cache, const std::vector<PackedPlan>& plans);

// Makes room and writes. Takes seconds if the model is large.
void keep_compiled(const CompileCache& cache, const CompiledKey& key, const SavedPlans& saved, const std::vector<PlanModel>& models,
                   const std::vector<PackedPlan>& plans, const Log& log);

}  // namespace kvik::native
