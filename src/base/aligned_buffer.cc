#include "base/aligned_buffer.h"

#include <cstdint>
#include <fmt/core.h>
#include <sys/mman.h>
#include <utility>

#include "base/huge_page.h"
#include "kvik/error.h"

namespace kvik {

AlignedBuffer::AlignedBuffer(size_t size_bytes) : size_bytes_(size_bytes) {
  if (size_bytes == 0) return;
  const bool huge = size_bytes >= kHugePage;
  mapping_bytes_ = huge ? size_bytes + kHugePage : size_bytes;
  void* mapping =
      mapping_bytes_ < size_bytes ? MAP_FAILED : mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    throw Error(Code::kTooLarge, fmt::format("cannot allocate {} bytes; use a smaller model, context or weights format", size_bytes));
  }
  mapping_ = mapping;
  const auto address = reinterpret_cast<uintptr_t>(mapping);
  const size_t skip = huge ? (kHugePage - address % kHugePage) % kHugePage : 0;
  data_ = static_cast<std::byte*>(mapping) + skip;
  if (huge) madvise(data_, size_bytes, MADV_HUGEPAGE);  // a hint
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  return *this;
}

AlignedBuffer::~AlignedBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

}  // namespace kvik
