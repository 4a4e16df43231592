#pragma once

#include <cstddef>

namespace kvik {

// What the system (and a container, where we are in one) could give without swapping; 0 where it does not say.
size_t available_memory_bytes();

}  // namespace kvik
