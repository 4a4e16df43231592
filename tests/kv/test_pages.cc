#include <cstring>
#include <gmock/gmock.h>

#include "kv/pages.h"

namespace kvik::kv {
namespace {

constexpr size_t kPageBytes = 128;
constexpr int kPositions = 4;

// A position holds one letter, so that a sequence reads as a text.
void write(Sequence& sequence, const std::string& text) {
  const int64_t end = sequence.length() + static_cast<int64_t>(text.size());
  sequence.prepare(end);
  for (size_t i = 0; i < text.size(); ++i) {
    const int64_t position = sequence.length() + static_cast<int64_t>(i);
    sequence.pages()[position / kPositions][position % kPositions] = static_cast<std::byte>(text[i]);
  }
  sequence.commit(end);
}

std::string read(const Sequence& sequence) {
  std::string text;
  for (int64_t i = 0; i < sequence.length(); ++i) text += static_cast<char>(sequence.pages()[i / kPositions][i % kPositions]);
  return text;
}

TEST(Pages, ASequenceHoldsWhatWasWrittenAcrossPages) {
  PageStore store(kPageBytes, kPositions);
  Sequence sequence(store);
  write(sequence, "abc");
  write(sequence, "defghijkl");
  EXPECT_EQ(read(sequence), "abcdefghijkl");
  EXPECT_EQ(sequence.size_bytes(), 3 * kPageBytes);
}

TEST(Pages, AForkSeesThePastAndNeitherSeesWhatTheOtherDoesLater) {
  PageStore store(kPageBytes, kPositions);
  Sequence origin(store), fork(store);
  write(origin, "abcdef");
  fork.fork_from(origin);
  write(origin, "XY");
  write(fork, "uvwxyz");
  EXPECT_EQ(read(origin), "abcdefXY");
  EXPECT_EQ(read(fork), "abcdefuvwxyz");
}

TEST(Pages, AForkCopiesNothingBeforeItIsWritten) {
  PageStore store(kPageBytes, kPositions);
  Sequence origin(store);
  write(origin, std::string(400, 'a'));
  const size_t before = store.used_bytes();
  std::vector<std::unique_ptr<Sequence>> forks;
  for (int i = 0; i < 1000; ++i) {
    forks.push_back(std::make_unique<Sequence>(store));
    forks.back()->fork_from(origin);
  }
  EXPECT_EQ(store.used_bytes(), before);
  write(*forks.front(), "b");
  EXPECT_EQ(store.used_bytes(), before + kPageBytes) << "one new page: the past ends at the end of one";
}

TEST(Pages, ARewoundSequenceWritesOverWhatItForgotAndLeavesItsForksAlone) {
  PageStore store(kPageBytes, kPositions);
  Sequence origin(store), fork(store);
  write(origin, "abcdefghij");
  fork.fork_from(origin);
  origin.rewind(2);
  write(origin, "ZZZ");
  EXPECT_EQ(read(origin), "abZZZ");
  EXPECT_EQ(read(fork), "abcdefghij");
}

TEST(Pages, PreparingChangesNothingThatCanBeSeen) {
  PageStore store(kPageBytes, kPositions);
  Sequence sequence(store);
  write(sequence, "abc");
  sequence.prepare(11);
  EXPECT_EQ(sequence.length(), 3);
  EXPECT_EQ(read(sequence), "abc");
  sequence.rewind(3);
  EXPECT_EQ(sequence.size_bytes(), kPageBytes);
}

TEST(Pages, WhatNobodyRefersToIsUsedAgain) {
  PageStore store(kPageBytes, kPositions);
  for (int i = 0; i < 100; ++i) {
    Sequence sequence(store);
    write(sequence, std::string(1000, 'a'));
  }
  const size_t reserved = store.reserved_bytes();
  EXPECT_EQ(store.used_bytes(), 0u);
  Sequence sequence(store);
  write(sequence, std::string(1000, 'a'));
  EXPECT_EQ(store.reserved_bytes(), reserved);
}

}  // namespace
}  // namespace kvik::kv
