#pragma once

#include "backend/native/plan/plan.h"

namespace kvik::native {

// Takes out weights, tables and constants that no operation names any more, and numbers the others anew: what is there is loaded.
void compact(Plan& plan);

}  // namespace kvik::native
