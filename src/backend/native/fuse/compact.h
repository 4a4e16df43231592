#pragma once

#include "backend/native/plan/plan.h"

namespace kvik::native {

// Removes weights, tables and constants that no op refers to any more and renumbers the others, because everything in the plan is loaded.
void compact(Plan& plan);

}  // namespace kvik::native
