#pragma once

#include <cstdint>

namespace kvik::testing_support {

// How often this program has asked for memory; always 0 under a sanitizer.
int64_t n_allocations();

}  // namespace kvik::testing_support
