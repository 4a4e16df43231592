#include "kv/page_memory.h"

#include <cstring>

#include "base/aligned_buffer.h"

namespace kvik::kv {
namespace {

class HostBlock final : public MemoryBlock {
 public:
  explicit HostBlock(size_t n_bytes) : memory_(n_bytes) {}
  PageAddress address() const override { return memory_.data(); }

 private:
  AlignedBuffer memory_;
};

}  // namespace

std::unique_ptr<MemoryBlock> HostMemory::allocate(size_t n_bytes) { return std::make_unique<HostBlock>(n_bytes); }
void HostMemory::copy(PageAddress to, PageAddress from, size_t n_bytes) { std::memcpy(to, from, n_bytes); }
void HostMemory::write(PageAddress to, std::span<const std::byte> from) { std::memcpy(to, from.data(), from.size()); }
void HostMemory::read(std::span<std::byte> to, PageAddress from) { std::memcpy(to.data(), from, to.size()); }

}  // namespace kvik::kv
