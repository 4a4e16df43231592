// Pages work in memory that the host cannot read: everything goes through PageMemory.
#include <gtest/gtest.h>

#include "kv/page_table.h"

namespace kvik::kv {
namespace {

// Addresses are far from any that the host has.
class FarMemory final : public PageMemory {
 public:
  static constexpr ptrdiff_t kFar = ptrdiff_t{1} << 46;

  bool is_host() const override { return false; }
  std::unique_ptr<MemoryBlock> allocate(size_t n_bytes) override { return std::make_unique<Block>(near_, n_bytes); }
  void copy(PageAddress to, PageAddress from, size_t n_bytes) override {
    ++n_copies;
    if (fails) throw Error(Code::kInternal, "the device has failed");
    near_.copy(near(to), near(from), n_bytes);
  }
  void write(PageAddress to, std::span<const std::byte> from) override { near_.write(near(to), from); }
  void read(std::span<std::byte> to, PageAddress from) override { near_.read(to, near(from)); }

  int n_copies = 0;
  bool fails = false;

 private:
  struct Block final : MemoryBlock {
    Block(HostMemory& memory, size_t n_bytes) : block(memory.allocate(n_bytes)) {}
    PageAddress address() const override { return reinterpret_cast<PageAddress>(reinterpret_cast<intptr_t>(block->address()) + kFar); }
    std::unique_ptr<MemoryBlock> block;
  };
  static PageAddress near(PageAddress address) { return reinterpret_cast<PageAddress>(reinterpret_cast<intptr_t>(address) - kFar); }

  HostMemory near_;
};

constexpr PageShape kFarShape{64, 4};

std::byte first_byte(PageMemory& memory, const PageTable& table) {
  std::byte byte{};
  memory.read({&byte, 1}, table.panels()[0]);
  return byte;
}

TEST(PageMemory, OfADeviceHoldsPagesThatAreForkedAndCopied) {
  const auto memory = std::make_shared<FarMemory>();
  PageStore store(kFarShape, nullptr, memory);
  PageTable origin(store), fork(store);
  origin.prepare(2);
  origin.commit(2);
  const std::byte one{1}, two{2};
  memory->write(origin.panels()[0], {&one, 1});
  fork.fork_from(origin);
  EXPECT_EQ(memory->n_copies, 0);
  fork.prepare(3);
  EXPECT_EQ(memory->n_copies, 1);
  memory->write(fork.panels()[0], {&two, 1});
  EXPECT_EQ(first_byte(*memory, origin), one);
  EXPECT_EQ(first_byte(*memory, fork), two);
}

TEST(PageMemory, ThatFailsToCopyAPageLeavesTheSequenceAsItWas) {
  const auto memory = std::make_shared<FarMemory>();
  PageStore store(kFarShape, nullptr, memory);
  PageTable origin(store), fork(store);
  origin.prepare(2);
  origin.commit(2);
  fork.fork_from(origin);
  const size_t used = store.used_bytes();
  memory->fails = true;
  EXPECT_THROW(fork.prepare(3), Error);
  EXPECT_EQ(store.used_bytes(), used);
  EXPECT_EQ(fork.panels()[0], origin.panels()[0]);
  memory->fails = false;
  fork.prepare(3);
  EXPECT_NE(fork.panels()[0], origin.panels()[0]);
}

}  // namespace
}  // namespace kvik::kv
