#pragma once

#include <filesystem>

#include "backend/native/stages.h"

// The plans of a model in a file, so that the next start need not compile it. A file belongs to one model (its graphs and weights), one
// version of the compiler and one set of options; it does not depend on weights format, cache format, instruction set or threads.
namespace kvik::native {

// Throws Error(kIo).
void save_stages(const std::filesystem::path& path, const analysis::Signature& signature, const StageOptions& options,
                 const Stages& stages);

// Throws Error(kIo) for a file that cannot be read, and Error(kBadArgument) for one that is damaged or belongs to something else: compile
// the model then.
Stages load_stages(const std::filesystem::path& path, const analysis::Signature& signature, const StageOptions& options);

}  // namespace kvik::native
