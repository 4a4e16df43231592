#pragma once

#include <memory>

#include "analysis/signature.h"
#include "backend/backend.h"
#include "backend/graph/executor.h"

namespace kvik::backend {

// The reference evaluator run on whole graphs: slow, plain, right; the judge between the others.
// Throws Error(kUnsupported) naming the operators it lacks. `switch_after`: see Traits.
std::unique_ptr<Backend> make_reference_backend(analysis::Signature signature, int64_t switch_after = 0);

// One file by itself, for those who put something around it.
std::unique_ptr<Executor> make_reference_executor(const analysis::File& file);

}  // namespace kvik::backend
