#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kernels/cpu/kernels.h"
#include "kvik/error.h"
#include "support/allocations.h"
#include "support/models.h"

namespace kvik::backend {
namespace {

using Rows = std::vector<std::vector<float>>;

std::vector<TokenId> prompt_for(const Backend& backend, int n) {
  std::vector<TokenId> ids;
  if (backend.traits().max_positions > 0) n = std::min(n, backend.traits().max_positions);
  for (int i = 0; i < n; ++i) ids.push_back((17 + i * 31) % std::min(backend.traits().vocab, 300));
  return ids;
}

void add_rows(std::vector<Row>& rows, std::span<const TokenId> tokens, int first, int sequence) {
  for (size_t i = 0; i < tokens.size(); ++i) rows.push_back({tokens[i], first + static_cast<int>(i), sequence, true});
}

Rows run(Backend& backend, const std::vector<Row>& rows, const std::vector<Cache*>& caches) {
  Logits logits;
  EXPECT_EQ(backend.run(rows, caches, logits), RunStatus::kDone);
  Rows result;
  for (int i = 0; i < logits.n_rows(); ++i) result.emplace_back(logits.row(i).begin(), logits.row(i).end());
  return result;
}

// Logits of every token, read in pieces of these sizes (the last one again and again).
Rows logits_in_pieces(Backend& backend, std::span<const TokenId> tokens, const std::vector<int>& pieces) {
  const std::unique_ptr<Cache> cache = backend.new_cache();
  Rows all;
  size_t piece = 0;
  for (int at = 0; at < static_cast<int>(tokens.size());) {
    const int n = std::min(pieces[std::min(piece++, pieces.size() - 1)], static_cast<int>(tokens.size()) - at);
    std::vector<Row> rows;
    add_rows(rows, tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(n)), at, 0);
    for (std::vector<float>& row : run(backend, rows, {cache.get()})) all.push_back(std::move(row));
    at += n;
  }
  return all;
}

std::filesystem::path fable() { return testing_support::source_root() / "models" / "fable"; }

TEST(NativeBackend, AStepAllocatesNothingOnceItIsWarm) {
  for (const int n_threads : {1, 3}) {
    const auto backend = testing_support::open_native(fable(), {.n_threads = n_threads});
    const std::unique_ptr<Cache> cache = backend->new_cache();
    Cache* const caches[] = {cache.get()};
    Logits logits;
    const auto step = [&](int position) {
      const Row row{42, position, 0, true};
      EXPECT_EQ(backend->run({&row, 1}, caches, logits), RunStatus::kDone);
    };
    for (int position = 0; position < 4; ++position) step(position);
    const int64_t before = testing_support::n_allocations();
    for (int position = 4; position < 30; ++position) step(position);
    EXPECT_EQ(testing_support::n_allocations(), before) << n_threads;
  }
}

TEST(NativeBackend, ARejectedCallLeavesTheCacheUnchanged) {
  const auto backend = testing_support::open_native(fable(), {.n_threads = 1});
  const std::vector<TokenId> tokens = prompt_for(*backend, 8);
  const Rows expected = logits_in_pieces(*backend, tokens, {8});
  const std::unique_ptr<Cache> cache = backend->new_cache();
  std::vector<Row> rows;
  add_rows(rows, std::span(tokens).first(5), 0, 0);
  run(*backend, rows, {cache.get()});
  EXPECT_THROW(run(*backend, {{backend->traits().vocab, 5, 0, true}}, {cache.get()}), Error);
  EXPECT_THROW(run(*backend, {{1, 4, 0, true}}, {cache.get()}), Error);
  EXPECT_EQ(cache->length(), 5);
  rows.clear();
  add_rows(rows, std::span(tokens).subspan(5), 5, 0);
  EXPECT_EQ(run(*backend, rows, {cache.get()}), Rows(expected.begin() + 5, expected.end()));
}

TEST(NativeBackend, AnUnknownInstructionSetIsAnErrorThatListsTheAvailableOnes) {
  EXPECT_THAT(
      [] { testing_support::open_native(fable(), {.isa = "abacus"}); },
      testing::ThrowsMessage<Error>(testing::AllOf(testing::HasSubstr("'abacus'"), testing::HasSubstr(cpu::available().back()->name))));
}

}  // namespace
}  // namespace kvik::backend
