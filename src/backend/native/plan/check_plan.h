#pragma once

#include "backend/native/plan/plan.h"

namespace kvik::native {

// Throws Error(kBadArgument), naming the op, if a plan is not well-formed: an index out of range, a size that does not match an op's input
// or output, a value that is read before it is computed. A plan that passes can be loaded and run without out-of-bounds accesses, no matter
// who wrote it. Every plan of the compiler passes.
void check_plan(const Plan& plan);

}  // namespace kvik::native
