#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

#include "kv/page_table.h"
#include "kvik/error.h"

namespace kvik::kv {
namespace {

constexpr size_t kPageBytes = 128;
constexpr int kPositions = 4;

// Each position holds one letter, so that the contents of a sequence are a string.
void write(PageTable& sequence, const std::string& text) {
  const int64_t end = sequence.length() + static_cast<int64_t>(text.size());
  sequence.prepare(end);
  for (size_t i = 0; i < text.size(); ++i) {
    const int64_t position = sequence.length() + static_cast<int64_t>(i);
    sequence.panels()[position / kPositions][position % kPositions] = static_cast<std::byte>(text[i]);
  }
  sequence.commit(end);
}

std::string read(const PageTable& sequence) {
  std::string text;
  for (int64_t i = 0; i < sequence.length(); ++i) text += static_cast<char>(sequence.panels()[i / kPositions][i % kPositions]);
  return text;
}

// A sequence and a fork of it.
struct Forked {
  explicit Forked(const std::string& text) {
    write(origin, text);
    fork.fork_from(origin);
  }
  PageStore store{{kPageBytes, kPositions}};
  PageTable origin{store}, fork{store};
};

TEST(Pages, SequenceReadsBackWhatWasWrittenAcrossPages) {
  PageStore store({kPageBytes, kPositions});
  PageTable sequence(store);
  write(sequence, "abc");
  write(sequence, "defghijkl");
  EXPECT_EQ(read(sequence), "abcdefghijkl");
  EXPECT_EQ(sequence.size_bytes(), 3 * kPageBytes);
}

TEST(Pages, ForkSharesThePastAndNoLaterWrites) {
  Forked pages("abcdef");
  write(pages.origin, "XY");
  write(pages.fork, "uvwxyz");
  EXPECT_EQ(read(pages.origin), "abcdefXY");
  EXPECT_EQ(read(pages.fork), "abcdefuvwxyz");
}

TEST(Pages, ForkCopiesNoPageUntilItIsWritten) {
  PageStore store({kPageBytes, kPositions});
  PageTable origin(store);
  write(origin, std::string(400, 'a'));
  const size_t before = store.used_bytes();
  std::vector<std::unique_ptr<PageTable>> forks;
  for (int i = 0; i < 1000; ++i) {
    forks.push_back(std::make_unique<PageTable>(store));
    forks.back()->fork_from(origin);
  }
  EXPECT_EQ(store.used_bytes(), before);
  write(*forks.front(), "b");
  EXPECT_EQ(store.used_bytes(), before + kPageBytes) << "the past ends at a page boundary, so one new page is enough";
}

TEST(Pages, WritingAfterRewindDoesNotChangeForks) {
  Forked pages("abcdefghij");
  pages.origin.rewind(2);
  write(pages.origin, "ZZZ");
  EXPECT_EQ(read(pages.origin), "abZZZ");
  EXPECT_EQ(read(pages.fork), "abcdefghij");
}

TEST(Pages, PrepareChangesNeitherLengthNorContents) {
  PageStore store({kPageBytes, kPositions});
  PageTable sequence(store);
  write(sequence, "abc");
  sequence.prepare(11);
  EXPECT_EQ(sequence.length(), 3);
  EXPECT_EQ(read(sequence), "abc");
  sequence.rewind(3);
  EXPECT_EQ(sequence.size_bytes(), kPageBytes);
}

TEST(Pages, FreePagesAreReused) {
  PageStore store({kPageBytes, kPositions});
  for (int i = 0; i < 100; ++i) {
    PageTable sequence(store);
    write(sequence, std::string(1000, 'a'));
  }
  const size_t reserved = store.allocated_bytes();
  EXPECT_EQ(store.used_bytes(), 0u);
  PageTable sequence(store);
  write(sequence, std::string(1000, 'a'));
  EXPECT_EQ(store.allocated_bytes(), reserved);
}

constexpr size_t kLargePage = size_t{1} << 18;

std::vector<std::unique_ptr<PageTable>> appended_forks(PageStore& store, const PageTable& origin, int n) {
  std::vector<std::unique_ptr<PageTable>> forks;
  for (int i = 0; i < n; ++i) {
    forks.push_back(std::make_unique<PageTable>(store));
    forks.back()->fork_from(origin);
    write(*forks.back(), "b");
  }
  return forks;
}

TEST(Pages, MemoryOfFreedForksGoesBackToTheSystemBeyondAReserve) {
  PageStore store({kLargePage, kPositions});
  PageTable origin(store);
  write(origin, "abcdefghij");
  auto forks = appended_forks(store, origin, 500);
  EXPECT_GE(store.allocated_bytes(), 500 * kLargePage);
  forks.clear();
  EXPECT_EQ(store.used_bytes(), 3 * kLargePage);
  EXPECT_LE(store.allocated_bytes(), 2 * PageStore::kReserveBytes + store.used_bytes()) << "the reserve and a block that is partly used";
  EXPECT_EQ(read(origin), "abcdefghij");
}

TEST(Pages, MemoryGoesBackToTheSystemInAnyOrderOfRelease) {
  PageStore store({kLargePage, kPositions});
  PageTable origin(store);
  write(origin, "abcdefghij");
  auto forks = appended_forks(store, origin, 500);
  std::mt19937 random(1);
  std::shuffle(forks.begin(), forks.end(), random);
  while (!forks.empty()) {
    ASSERT_EQ(read(*forks.back()), "abcdefghijb");
    forks.pop_back();
  }
  EXPECT_LE(store.allocated_bytes(), 2 * PageStore::kReserveBytes + store.used_bytes());
}

// A block that came and went with every step would cost a system call and page faults each time.
TEST(Pages, StepsThatForkAndFreeKeepTheSameMemory) {
  PageStore store({kLargePage, kPositions});
  PageTable origin(store);
  write(origin, std::string(200, 'a'));
  appended_forks(store, origin, 8).clear();
  const size_t reserved = store.allocated_bytes();
  for (int step = 0; step < 30; ++step) {
    const auto forks = appended_forks(store, origin, 8);
    ASSERT_EQ(store.allocated_bytes(), reserved);
  }
  EXPECT_EQ(store.allocated_bytes(), reserved);
}

TEST(Pages, PagesLargerThanTheReserveAreReusedToo) {
  PageStore store({PageStore::kReserveBytes + 64, kPositions});
  PageTable origin(store);
  write(origin, "abcdef");
  appended_forks(store, origin, 4).clear();
  const size_t reserved = store.allocated_bytes();
  for (int step = 0; step < 3; ++step) {
    const auto forks = appended_forks(store, origin, 4);
    ASSERT_EQ(store.allocated_bytes(), reserved);
  }
}

TEST(Pages, PanelsOfAPageAreAddressedOneByOne) {
  PageStore store({kPageBytes, kPositions, 3});
  PageTable origin(store), fork(store);
  write(origin, std::string(20, 'a') + "bcdef");
  EXPECT_EQ(origin.size_bytes(), 3 * 3 * kPageBytes);
  fork.fork_from(origin);
  write(fork, "XYZ");
  write(origin, "uv");
  EXPECT_EQ(read(origin), std::string(20, 'a') + "bcdefuv");
  EXPECT_EQ(read(fork), std::string(20, 'a') + "bcdefXYZ");
}

TEST(Pages, PagesBeforeAWindowAreGivenBack) {
  Forked pages("abcdefghijkl");
  PageTable& sequence = pages.origin;
  sequence.drop_before(7);
  EXPECT_EQ(sequence.first_kept(), 4);
  EXPECT_EQ(sequence.size_bytes(), 2 * kPageBytes);
  EXPECT_EQ(sequence.panels()[0], nullptr);
  EXPECT_EQ(read(pages.fork), "abcdefghijkl");
  sequence.drop_before(3);
  EXPECT_EQ(sequence.first_kept(), 4);
  write(sequence, "mnopq");
  PageTable later(pages.store);
  later.fork_from(sequence);
  EXPECT_EQ(later.first_kept(), 4);
  sequence.rewind(0);
  EXPECT_EQ(sequence.first_kept(), 0);
  pages.fork.clear();
  later.clear();
  EXPECT_EQ(pages.store.used_bytes(), 0u);
}

TEST(Pages, PrepareTakesAsManyPagesAsItSays) {
  PageStore store({kPageBytes, kPositions});
  PageTable origin(store), fork(store);
  write(origin, "abcdef");
  fork.fork_from(origin);
  for (const int64_t end : {6, 7, 8, 9, 30}) {
    const size_t before = store.used_bytes();
    const size_t n_needed = fork.n_needed(end);
    fork.prepare(end);
    EXPECT_EQ(store.used_bytes() - before, n_needed * kPageBytes) << end;
  }
}

void make(PageStore& store, const std::vector<PageCopy>& copies) {
  for (const PageCopy& copy : copies) {
    std::memcpy(copy.to->data, copy.from->data, static_cast<size_t>(copy.n_positions));
    PageTable::finish(store, copy);
  }
}

// Behind what has been prepared.
void write_prepared(PageTable& sequence, char letter) {
  sequence.panels()[sequence.length() / kPositions][sequence.length() % kPositions] = static_cast<std::byte>(letter);
  sequence.commit(sequence.length() + 1);
}

TEST(Pages, CopiesMayBeLeftToTheCaller) {
  Forked pages("abcdef");
  PageTable third(pages.store), idle(pages.store);
  third.fork_from(pages.origin);
  for (const bool is_kept : {false, true}) {  // by a sequence that does not continue
    if (is_kept) idle.fork_from(pages.origin);
    PageTable one(pages.store), two(pages.store);
    one.fork_from(pages.origin), two.fork_from(pages.origin);
    std::vector<PageCopy> copies;
    for (PageTable* sequence : {&one, &two}) sequence->prepare(7, copies);
    pages.fork.prepare(6, copies);  // writes nothing
    ASSERT_EQ(copies.size(), 2u);
    for (const PageCopy& copy : copies) EXPECT_EQ(copy.n_positions, 2);
    make(pages.store, copies);
    write_prepared(one, 'x'), write_prepared(two, 'y');
    EXPECT_EQ(read(one), "abcdefx");
    EXPECT_EQ(read(two), "abcdefy");
    EXPECT_EQ(read(pages.origin), "abcdef");
  }
}

TEST(Pages, TheLastSequenceThatSharesAPageKeepsIt) {
  Forked pages("abcdef");
  PageTable third(pages.store);
  third.fork_from(pages.origin);
  const PageAddress shared = pages.origin.panels()[1];
  std::vector<PageCopy> copies;
  for (PageTable* sequence : {&pages.fork, &pages.origin, &third}) sequence->prepare(7, copies);
  EXPECT_EQ(copies.size(), 2u);
  EXPECT_EQ(third.panels()[1], shared);
  make(pages.store, copies);
  EXPECT_EQ(pages.store.used_bytes(), 4 * kPageBytes);
  write_prepared(pages.fork, 'x'), write_prepared(pages.origin, 'y'), write_prepared(third, 'z');
  EXPECT_EQ(read(pages.fork), "abcdefx");
  EXPECT_EQ(read(pages.origin), "abcdefy");
  EXPECT_EQ(read(third), "abcdefz");
  for (PageTable* sequence : {&pages.fork, &pages.origin, &third}) sequence->clear();
  EXPECT_EQ(pages.store.used_bytes(), 0u);
}

TEST(Pages, CopiesBeforeAFailureAreStillToBeMade) {
  const auto budget = std::make_shared<Budget>(3 * kPageBytes);
  PageStore store({kPageBytes, kPositions}, budget);
  PageTable origin(store), one(store), two(store);
  write(origin, "abcdef");
  one.fork_from(origin), two.fork_from(origin);
  std::vector<PageCopy> copies;
  one.prepare(7, copies);
  EXPECT_THROW(two.prepare(7, copies), Error);
  ASSERT_EQ(copies.size(), 1u);
  make(store, copies);
  EXPECT_EQ(read(one), "abcdef");
  EXPECT_EQ(read(two), "abcdef");
}

TEST(Pages, ABudgetIsNeverExceeded) {
  const auto budget = std::make_shared<Budget>(10 * kPageBytes + 5);
  PageStore store({kPageBytes, kPositions}, budget);
  PageStore other({2 * kPageBytes, kPositions}, budget);
  PageTable sequence(store), source(other);
  write(sequence, std::string(6 * kPositions, 'a'));
  EXPECT_LE(budget->allocated_bytes(), budget->limit_bytes());
  EXPECT_TRUE(store.can_take(4));
  EXPECT_FALSE(store.can_take(5));
  EXPECT_THROW(write(sequence, std::string(5 * kPositions, 'b')), Error);
  EXPECT_EQ(read(sequence), std::string(6 * kPositions, 'a')) << "a sequence that found no room is as it was";
  EXPECT_LE(budget->allocated_bytes(), budget->limit_bytes());
  EXPECT_THROW(source.prepare(100), Error);
}

// Or else the first store to be used would keep the memory of all.
TEST(Pages, AStoreThatNeedsMemoryGetsTheReserveOfAnother) {
  const auto budget = std::make_shared<Budget>(10 * kPageBytes);
  PageStore store({kPageBytes, kPositions}, budget);
  PageStore other({2 * kPageBytes, kPositions}, budget);
  {
    PageTable sequence(store);
    write(sequence, std::string(9 * kPositions, 'a'));
  }
  EXPECT_GT(store.allocated_bytes(), 0);
  EXPECT_TRUE(other.can_take(5));
  PageTable source(other);
  source.prepare(5 * kPositions);
  EXPECT_EQ(store.allocated_bytes(), 0);
  EXPECT_LE(budget->allocated_bytes(), budget->limit_bytes());
  EXPECT_FALSE(store.can_take(1)) << "what is used is not given up";
}

}  // namespace
}  // namespace kvik::kv
