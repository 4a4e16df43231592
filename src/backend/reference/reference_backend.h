#pragma once

#include <memory>

#include "analysis/signature.h"
#include "backend/backend.h"

namespace kvik::backend {

// The reference evaluator run on whole graphs: slow, plain, right; the judge between the others.
// Throws Error(kUnsupported) naming the operators it lacks.
std::unique_ptr<Backend> make_reference_backend(analysis::Signature signature);

}  // namespace kvik::backend
