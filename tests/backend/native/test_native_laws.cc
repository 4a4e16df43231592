// On the native backend a row's logits do not depend on how it was computed: equal bits, whatever the way.
#include <cstring>
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
  backend.run(rows, caches, logits);
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

std::vector<std::filesystem::path> small_models() {
  std::vector<std::filesystem::path> folders = {fable()};
  for (const testing_support::KnownDecoder& decoder : testing_support::known_decoders()) {
    const bool in_tree = decoder.folder.string().starts_with(testing_support::fixtures().string());
    if (in_tree && !testing_support::why_not_native(decoder.name)) folders.push_back(decoder.folder);
  }
  return folders;
}

class NativeLaws : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(NativeLaws, ThreadsChangeNoBit) {
  const auto one = testing_support::open_native(GetParam(), {.n_threads = 1});
  const std::vector<TokenId> tokens = prompt_for(*one, 21);
  const Rows expected = logits_in_pieces(*one, tokens, {13, 1});
  for (const int n_threads : {2, 5}) {
    EXPECT_EQ(logits_in_pieces(*testing_support::open_native(GetParam(), {.n_threads = n_threads}), tokens, {13, 1}), expected)
        << n_threads;
  }
}

TEST_P(NativeLaws, InstructionSetsChangeNoBit) {
  Rows expected;
  for (const cpu::CpuKernels* kernels : cpu::available()) {
    const auto backend = testing_support::open_native(GetParam(), {.isa = kernels->name, .n_threads = 1});
    const Rows found = logits_in_pieces(*backend, prompt_for(*backend, 14), {9, 1});
    if (expected.empty()) expected = found;
    EXPECT_EQ(found, expected) << kernels->name;
  }
}

TEST_P(NativeLaws, ASplitPromptGivesTheBitsOfTheWhole) {
  const auto backend = testing_support::open_native(GetParam(), {.n_threads = 2});
  const std::vector<TokenId> tokens = prompt_for(*backend, 37);
  const auto split = [&](const std::vector<int>& pieces) {
    Rows rows = logits_in_pieces(*backend, tokens, pieces);
    if (backend->traits().switch_after > 0) rows.erase(rows.begin(), rows.end() - 1);  // rows before it are those of a longer sequence
    return rows;
  };
  const Rows whole = split({static_cast<int>(tokens.size())});
  for (const std::vector<int>& pieces : std::vector<std::vector<int>>{{1}, {2, 3, 5, 7}, {32, 5}, {31, 1}})
    EXPECT_EQ(split(pieces), whole) << fmt::format("first {}", pieces.front());
}

TEST_P(NativeLaws, ABatchGivesTheBitsOfEachAlone) {
  const auto backend = testing_support::open_native(GetParam(), {.n_threads = 2});
  std::vector<std::unique_ptr<Cache>> caches;
  std::vector<Cache*> together;
  std::vector<Row> rows;
  Rows expected;
  for (const int n : {3, 1, 17, 6}) {
    std::vector<TokenId> tokens = prompt_for(*backend, n);
    tokens.front() = static_cast<TokenId>(n);
    for (const std::vector<float>& row : logits_in_pieces(*backend, tokens, {n})) expected.push_back(row);
    add_rows(rows, tokens, 0, static_cast<int>(caches.size()));
    caches.push_back(backend->new_cache());
    together.push_back(caches.back().get());
  }
  EXPECT_EQ(run(*backend, rows, together), expected);
}

TEST_P(NativeLaws, ASequenceWithoutRowsDisturbsNobody) {
  const auto backend = testing_support::open_native(GetParam(), {.n_threads = 2});
  const std::vector<TokenId> tokens = prompt_for(*backend, 2);
  const Rows expected = logits_in_pieces(*backend, tokens, {2});
  const std::unique_ptr<Cache> busy = backend->new_cache(), idle = backend->new_cache();
  std::vector<Row> rows;
  add_rows(rows, tokens, 0, 1);
  EXPECT_EQ(run(*backend, rows, {idle.get(), busy.get()}), expected);
  EXPECT_EQ(idle->length(), 0);
}

TEST_P(NativeLaws, RowsThatWantNoLogitsChangeNoneOfTheOthers) {
  const auto backend = testing_support::open_native(GetParam(), {.n_threads = 2});
  const std::vector<TokenId> tokens = prompt_for(*backend, 11);
  const Rows all = logits_in_pieces(*backend, tokens, {11});
  const std::unique_ptr<Cache> cache = backend->new_cache();
  std::vector<Row> rows;
  add_rows(rows, tokens, 0, 0);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].wants_logits = i == 4 || i == 10;
  EXPECT_EQ(run(*backend, rows, {cache.get()}), (Rows{all[4], all[10]}));
}

TEST_P(NativeLaws, AForkIsAFreshSequenceAndARewindNeverHappened) {
  const auto backend = testing_support::open_native(GetParam(), {.n_threads = 2});
  const std::vector<TokenId> tokens = prompt_for(*backend, 12);
  const Rows expected = logits_in_pieces(*backend, tokens, {12});
  const std::unique_ptr<Cache> origin = backend->new_cache();
  std::vector<Row> rows;
  add_rows(rows, std::span(tokens).first(7), 0, 0);
  run(*backend, rows, {origin.get()});
  const std::unique_ptr<Cache> fork = backend->fork(*origin);
  const std::vector<TokenId> other(5, 3);
  rows.clear();
  add_rows(rows, other, 7, 0);
  const Rows astray = run(*backend, rows, {origin.get()});
  rows.clear();
  add_rows(rows, std::span(tokens).subspan(7), 7, 0);
  const Rows rest(expected.begin() + 7, expected.end());
  EXPECT_EQ(run(*backend, rows, {fork.get()}), rest);
  if (!backend->traits().can_rewind) return;
  backend->rewind(*origin, 7);
  EXPECT_EQ(run(*backend, rows, {origin.get()}), rest);
}

INSTANTIATE_TEST_SUITE_P(Models, NativeLaws, testing::ValuesIn(small_models()), [](const auto& one) {
  std::string name = fmt::format("{}_{}", one.index, one.param.filename().string());
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

TEST(NativeBackend, AStepAllocatesNothingOnceItIsWarm) {
  for (const int n_threads : {1, 3}) {
    const auto backend = testing_support::open_native(fable(), {.n_threads = n_threads});
    const std::unique_ptr<Cache> cache = backend->new_cache();
    Cache* const caches[] = {cache.get()};
    Logits logits;
    const auto step = [&](int position) {
      const Row row{42, position, 0, true};
      backend->run({&row, 1}, caches, logits);
    };
    for (int position = 0; position < 4; ++position) step(position);
    const int64_t before = testing_support::n_allocations();
    for (int position = 4; position < 30; ++position) step(position);
    EXPECT_EQ(testing_support::n_allocations(), before) << n_threads;
  }
}

TEST(NativeBackend, ARefusedCallLeavesTheCacheAsItWas) {
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

TEST(NativeBackend, AnInstructionSetThatIsNotHereIsASentence) {
  EXPECT_THROW(testing_support::open_native(fable(), {.isa = "abacus"}), Error);
}

}  // namespace
}  // namespace kvik::backend
