#pragma once

#include <cstdint>

namespace kvik::testing_support {

// How often this program has asked for memory.
int64_t n_allocations();

}  // namespace kvik::testing_support
