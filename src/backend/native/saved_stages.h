#pragma once

#include <filesystem>

#include "backend/native/plan/plan_file.h"
#include "backend/native/stages.h"

// The plans of a model in a file, so that the next start need not compile it. A file belongs to one model (its graphs and weights), one
// version of the compiler and one set of options; it does not depend on weights format, cache format, instruction set or threads.
namespace kvik::native {

std::vector<PlanModel> plan_models(const analysis::Signature& signature);

// What a file holds for these stages, and back. The second throws Error(kBadArgument) for plans of other options, or of no decoder.
SavedPlans saved_plans(const analysis::Signature& signature, const StageOptions& options, const Stages& stages);
Stages stages_of(const SavedPlans& saved, const analysis::Signature& signature, const StageOptions& options, std::string_view name);

// Everything beside the model that its plans follow from.
std::string describe(const analysis::Signature& signature, const StageOptions& options);

// Throws Error(kIo).
void save_stages(const std::filesystem::path& path, const analysis::Signature& signature, const StageOptions& options,
                 const Stages& stages);

// Throws Error(kIo) for a file that cannot be read, and Error(kBadArgument) for one that is damaged or belongs to something else: compile
// the model then.
Stages load_stages(const std::filesystem::path& path, const analysis::Signature& signature, const StageOptions& options);

}  // namespace kvik::native
