#pragma once

#include <cstddef>

namespace kvik {

// Memory that the system (and a container, if any) can provide without swapping; 0 if unknown.
size_t available_memory_bytes();

}  // namespace kvik
