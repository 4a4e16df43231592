#pragma once

#include <memory>
#include <vector>

#include "backend/native/plan/plan.h"

namespace kvik::native::testing_support {

// What rows are given where they come as embeddings.
float given(int64_t position, int64_t element);

// The outputs of some rows of one sequence, a prompt in one call and then row by row, as the backend runs plans.
std::vector<float> outputs(const std::shared_ptr<const Plan>& plan);

}  // namespace kvik::native::testing_support
