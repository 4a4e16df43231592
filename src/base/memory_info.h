#pragma once

#include <cstddef>
#include <filesystem>

namespace kvik {

// Memory that the system (and a container, if any) can provide without swapping; 0 if unknown.
size_t available_memory_bytes();

// The largest cache that a core can use; a common size if unknown. Not what sysconf() reports: of a processor with several such
// caches (AMD EPYC) it may return the sum, from which no core can read.
size_t shared_cache_bytes();
// The largest of the caches that a folder of sysfs describes (index0/size is "48K"); 0 if there is none.
size_t largest_cache_bytes(const std::filesystem::path& folder);

}  // namespace kvik
