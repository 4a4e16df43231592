#pragma once

#include <cstdint>

namespace kvik::sample {

// How often this program has asked for memory.
int64_t n_allocations();

}  // namespace kvik::sample
