#include "support/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

#ifdef KVIK_SANITIZED  // sanitizers bring operators of their own

namespace kvik::testing_support {
int64_t n_allocations() { return 0; }
}  // namespace kvik::testing_support

#else

namespace {

std::atomic<int64_t> count = 0;

void* counted(size_t n_bytes) {
  ++count;
  return std::malloc(n_bytes);
}
void* counted_or_throw(size_t n_bytes) {
  void* memory = counted(n_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// All forms, because memory from one of them may be freed by another.
void* operator new(size_t n_bytes) { return counted_or_throw(n_bytes); }
void* operator new[](size_t n_bytes) { return counted_or_throw(n_bytes); }
void* operator new(size_t n_bytes, const std::nothrow_t&) noexcept { return counted(n_bytes); }
void* operator new[](size_t n_bytes, const std::nothrow_t&) noexcept { return counted(n_bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace kvik::testing_support {
int64_t n_allocations() { return count; }
}  // namespace kvik::testing_support

#endif
