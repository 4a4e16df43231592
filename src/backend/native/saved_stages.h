#pragma once

#include <filesystem>

#include "backend/native/plan/plan_file.h"
#include "backend/native/stages.h"

// The plans of a model in a file, so that the next start need not compile it. A file belongs to one model (its graphs and weights), one
// version of the compiler and one set of options; it does not depend on weights format, cache format, instruction set or threads.
namespace kvik::native {

std::vector<PlanModel> plan_models(const analysis::Signature& signature);

// Converts stages to the contents of a file, and back. The second throws Error(kBadArgument) for plans of other options, or without a
// decoder.
SavedPlans saved_plans(const analysis::Signature& signature, const StageOptions& options, const Stages& stages);
Stages stages_of(const SavedPlans& saved, const analysis::Signature& signature, const StageOptions& options, std::string_view name);

// Everything besides the model that its plans depend on.
std::string describe(const analysis::Signature& signature, const StageOptions& options);

// Throws Error(kIo).
void save_stages(const std::filesystem::path& path, const analysis::Signature& signature, const StageOptions& options,
                 const Stages& stages);

// Throws Error(kIo) if the file cannot be read, and Error(kBadArgument) if it is damaged or belongs to another model: the caller then
// compiles the model.
Stages load_stages(const std::filesystem::path& path, const analysis::Signature& signature, const StageOptions& options);

}  // namespace kvik::native
