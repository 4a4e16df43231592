#pragma once

#include <cstddef>

namespace kvik::testing_support {

// How often this thread has allocated. Linking count_allocations.cc replaces the allocation of the whole program.
size_t n_allocations();

}  // namespace kvik::testing_support
