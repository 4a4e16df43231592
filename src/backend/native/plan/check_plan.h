#pragma once

#include "backend/native/plan/plan.h"

namespace kvik::native {

// Throws Error(kBadArgument) naming the op where a plan is not well-formed: an index that names nothing, a size that does not fit what an
// op reads or writes, a value that is read before it is made. A plan that passes can be loaded and run without leaving its memory, whoever
// wrote it. Every plan that the compiler makes passes.
void check_plan(const Plan& plan);

}  // namespace kvik::native
