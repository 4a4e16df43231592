#pragma once

#include <memory>

#include "analysis/signature.h"
#include "backend/backend.h"
#include "backend/graph/executor.h"

namespace kvik::backend {

// Runs whole graphs with the reference evaluator: slow, simple and correct; used to judge the other backends. Throws Error(kUnsupported)
// with the operators that have no reference kernel. `switch_after`: see Traits.
std::unique_ptr<Backend> make_reference_backend(analysis::Signature signature, int64_t switch_after = 0);

// An executor for one file.
std::unique_ptr<Executor> make_reference_executor(const analysis::File& file);

}  // namespace kvik::backend
