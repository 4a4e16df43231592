#pragma once

#include <memory>

#include "backend/native/plan/plan.h"

namespace kvik::native {

// One plan of two for the same model: `upto` holds for sequences of at most `after` tokens, `beyond` for longer ones. They must be equal
// except for their position tables (a rotation that is scaled for long texts); null if they are not.
std::shared_ptr<const Plan> join(const Plan& upto, const Plan& beyond, int64_t after);

}  // namespace kvik::native
