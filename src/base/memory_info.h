#pragma once

#include <cstddef>

namespace kvik {

// Memory that the system (and a container, if any) can provide without swapping; 0 if unknown.
size_t available_memory_bytes();

// The largest cache of the processor, which its cores share; a common size if unknown.
size_t shared_cache_bytes();

}  // namespace kvik
