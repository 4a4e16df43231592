#include "sample/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> count = 0;
}

void* operator new(size_t n_bytes) {
  ++count;
  if (void* memory = std::malloc(n_bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace kvik::sample {
int64_t n_allocations() { return count; }
}  // namespace kvik::sample
