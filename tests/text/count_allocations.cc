#include "text/count_allocations.h"

#include <cstdlib>
#include <new>

namespace {

thread_local size_t n_counted = 0;

}  // namespace

namespace kvik::testing_support {

size_t n_allocations() { return n_counted; }

}  // namespace kvik::testing_support

void* operator new(size_t size) {
  ++n_counted;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
