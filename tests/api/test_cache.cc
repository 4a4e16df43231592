// The shared cache in the public API: cached prefixes, the memory limit, trees of continuations, threads.
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "kvik/kvik.h"
#include "support/paths.h"

namespace kvik {
namespace {

using Tokens = std::vector<TokenId>;

Model load_small(LoadOptions options = {}) {
  options.backend = BackendChoice::kNative;
  options.threads = 1;
  return Model::load((testing_support::fixtures() / "zoo" / "qwen2").string(), options);
}

Tokens text(int n, TokenId first = 5) {
  Tokens tokens;
  for (int i = 0; i < n; ++i) tokens.push_back((first + i * 37) % 390);
  return tokens;
}

std::vector<float> logits_of(const Model& model, const Tokens& tokens) {
  Session session = model.session();
  EXPECT_EQ(session.append(tokens), AppendStatus::kDone);
  return {session.logits().begin(), session.logits().end()};
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST(Logits, SharedLogitsDoNotChangeWithTheSession) {
  const Model model = load_small();
  const auto vocab = static_cast<size_t>(model.vocab_size());
  std::shared_ptr<const float[]> first, node;
  {
    Session session = model.session();
    ASSERT_EQ(session.append(text(7)), AppendStatus::kDone);
    first = session.shared_logits();
    EXPECT_EQ(first.get(), session.logits().data());  // no copy
    for (const TokenId token : text(5, 90)) ASSERT_EQ(session.append(token), AppendStatus::kDone);
    session.rewind(7);
    const Tokens tokens = {11, 12};
    ASSERT_EQ(session.append_tree(tokens, std::vector<int>{-1, 0}).status(), AppendStatus::kDone);
    node = session.shared_logits(1);
    EXPECT_THROW((void)session.shared_logits(2), Error);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(session.append_tree(text(2, i), std::vector<int>{-1, 0}).status(), AppendStatus::kDone);
  }
  Tokens path = text(7);
  EXPECT_TRUE(same_bits({first.get(), vocab}, logits_of(model, path)));
  path.insert(path.end(), {11, 12});
  EXPECT_TRUE(same_bits({node.get(), vocab}, logits_of(model, path)));
}

TEST(Append, CancelledAppendsNothing) {
  const Model model = load_small();
  Session session = model.session();
  ASSERT_EQ(session.append(text(3)), AppendStatus::kDone);
  EXPECT_EQ(session.append(text(9), {.cancelled = [] { return true; }}), AppendStatus::kCancelled);
  EXPECT_EQ(session.length(), 3);
  int n_reported = 0;
  EXPECT_EQ(session.append(text(9), {.progress = [&](int done, int) { n_reported = done; }}), AppendStatus::kDone);
  EXPECT_EQ(n_reported, 9);
  EXPECT_EQ(session.length(), 12);
}

TEST(Prefixes, ANewSessionReusesThePrefixOfAnother) {
  const Model model = load_small(), alone = load_small({.reuse_prefixes = false});
  Session first = model.session();
  ASSERT_EQ(first.append(text(50)), AppendStatus::kDone);
  EXPECT_EQ(first.metrics().reused_tokens, 0);
  Session second = model.session();  // while the first still lives
  ASSERT_EQ(second.append(text(70)), AppendStatus::kDone);
  EXPECT_EQ(second.metrics().reused_tokens, 50);
  EXPECT_EQ(second.metrics().prompt_tokens, 20);
  EXPECT_EQ(model.cache_use().reused_positions, 50);
  EXPECT_TRUE(same_bits(second.logits(), logits_of(alone, text(70))));
  EXPECT_EQ(alone.cache_use().reused_positions, 0);
}

TEST(Prefixes, TheLastTokenOfAReusedPromptIsComputedForItsLogits) {
  const Model model = load_small(), alone = load_small({.reuse_prefixes = false});
  const std::vector<float> expected = logits_of(alone, text(64));
  EXPECT_TRUE(same_bits(logits_of(model, text(64)), expected));
  EXPECT_TRUE(same_bits(logits_of(model, text(64)), expected));
  EXPECT_EQ(model.cache_use().reused_positions, 63);
}

TEST(Prefixes, AnswersOfEndedGenerationsAreReusedToo) {
  const Model model = load_small();
  const GenerateOptions greedy{.max_tokens = 40, .ignore_eos = true};
  Generation first = model.generate(text(10), greedy);
  while (first.next()) {}
  Tokens turn = text(10);
  turn.insert(turn.end(), first.ids().begin(), first.ids().end());
  Generation second = model.generate(turn, greedy);
  EXPECT_EQ(second.metrics().reused_tokens, 10 + 40 - 1) << "all but the last token, which was chosen and never computed";
}

TEST(Prefixes, ASavedPrefixIsLoadedIntoNewSessions) {
  const testing_support::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "prefix.kv";
  {
    const Model model = load_small();
    Session session = model.session();
    ASSERT_EQ(session.append(text(45)), AppendStatus::kDone);
    session.save(file);
  }
  const Model model = load_small();
  EXPECT_EQ(model.load_prefix(file), 45);
  Session session = model.session();
  ASSERT_EQ(session.append(text(60)), AppendStatus::kDone);
  EXPECT_EQ(session.metrics().reused_tokens, 45);
  EXPECT_TRUE(same_bits(session.logits(), logits_of(load_small({.reuse_prefixes = false}), text(60))));
  EXPECT_THROW(load_small({.reuse_prefixes = false}).load_prefix(file), Error);
}

constexpr size_t kPage = 32 * 2 * 2 * 2 * 16 * sizeof(float);  // 32 positions, 2 layers, keys and values of 2 heads of 16

TEST(Budget, AFullCacheIsAStatusAndNothingIsLost) {
  const Model model = load_small({.kv_bytes = 4 * kPage});
  Session first = model.session(), second = model.session();
  ASSERT_EQ(first.append(text(64)), AppendStatus::kDone);
  ASSERT_EQ(second.append(text(40, 7)), AppendStatus::kDone);
  const std::vector<float> before(second.logits().begin(), second.logits().end());
  EXPECT_EQ(second.append(text(60, 9)), AppendStatus::kNoMemory);
  EXPECT_EQ(second.length(), 40);
  EXPECT_TRUE(same_bits(second.logits(), before));
  EXPECT_LE(model.cache_use().allocated_bytes, 4 * kPage);
  first.reset();
  ASSERT_EQ(second.append(text(60, 9)), AppendStatus::kDone);
  Tokens whole = text(40, 7), more = text(60, 9);
  whole.insert(whole.end(), more.begin(), more.end());
  EXPECT_TRUE(same_bits(second.logits(), logits_of(load_small(), whole)));
  EXPECT_GT(model.cache_use().evicted_positions, 0);
}

TEST(Budget, AGenerationGoesOnAfterAnotherSessionEnded) {
  const Model model = load_small({.kv_bytes = 3 * kPage, .reuse_prefixes = false}), unbounded = load_small();
  const GenerateOptions greedy{.max_tokens = 60, .ignore_eos = true};
  std::optional<Session> other = model.session();
  ASSERT_EQ(other->append(text(40)), AppendStatus::kDone);
  Generation generation = model.generate(text(20), greedy);
  EXPECT_THROW(while (generation.next()){}, Error);
  other.reset();
  while (generation.next()) {}
  Generation expected = unbounded.generate(text(20), greedy);
  while (expected.next()) {}
  EXPECT_EQ(generation.ids(), expected.ids());
}

TEST(Budget, OneThatHoldsNoPageIsRefused) {
  EXPECT_THAT([] { load_small({.kv_bytes = 1000}); }, testing::ThrowsMessage<Error>(testing::HasSubstr("one page needs")));
}

// Rows of logits that fill whole cache lines, and rows that do not.
class TreesOf : public testing::TestWithParam<std::string> {};

TEST_P(TreesOf, EveryNodeHasTheLogitsOfItsPathAlone) {
  const Model model = Model::load((testing_support::source_root() / "models" / GetParam()).string());
  Tokens start = text(30);
  for (TokenId& token : start) token %= model.vocab_size();
  Session session = model.session();
  ASSERT_EQ(session.append(start), AppendStatus::kDone);
  const Tokens tokens = {5, 6, 7, 8, 9, 10};
  const std::vector<int> parents = {-1, 0, 0, -1, 1, 4};  // the deepest path crosses the end of a page
  const TreeLogits logits = session.append_tree(tokens, parents);
  ASSERT_EQ(logits.status(), AppendStatus::kDone);
  ASSERT_EQ(logits.size(), 6);
  EXPECT_EQ(session.length(), 30);
  for (int node = 0; node < 6; ++node) {
    Tokens path;
    for (int at = node; at >= 0; at = parents[static_cast<size_t>(at)]) path.insert(path.begin(), tokens[static_cast<size_t>(at)]);
    Tokens whole = start;
    whole.insert(whole.end(), path.begin(), path.end());
    EXPECT_TRUE(same_bits(logits[node], logits_of(model, whole))) << node;
  }
  session.keep(5);
  EXPECT_EQ(Tokens(session.tokens().end() - 4, session.tokens().end()), (Tokens{5, 6, 9, 10}));
  EXPECT_THROW(session.keep(5), Error) << "the tree is gone";
  Tokens whole(session.tokens().begin(), session.tokens().end());
  EXPECT_TRUE(same_bits(session.logits(), logits_of(model, whole)));
  ASSERT_EQ(session.append(11), AppendStatus::kDone);
  whole.push_back(11);
  EXPECT_TRUE(same_bits(session.logits(), logits_of(model, whole)));
}

INSTANTIATE_TEST_SUITE_P(Every, TreesOf, testing::Values("fable", "connect-four"));

TEST(Trees, BadOnesAreRefusedAndChangeNothing) {
  const Model model = load_small();
  Session session = model.session();
  ASSERT_EQ(session.append(text(5)), AppendStatus::kDone);
  const auto refused = [&](const Tokens& tokens, const std::vector<int>& parents, const char* why) {
    EXPECT_THAT([&] { (void)session.append_tree(tokens, parents); }, testing::ThrowsMessage<Error>(testing::HasSubstr(why)));
  };
  refused({1, 2}, {-1}, "2 tokens and 1 parents");
  refused({1, 2}, {-1, 1}, "the parent of node 1 is 1");
  refused({1}, {-2}, "the parent of node 0 is -2");
  refused({400}, {-1}, "outside the vocabulary");
  EXPECT_EQ(session.length(), 5);
  Session full = model.session();
  ASSERT_EQ(full.append(text(255)), AppendStatus::kDone);
  EXPECT_EQ(full.append_tree(Tokens{1, 2}, std::vector<int>{-1, 0}).status(), AppendStatus::kContextFull);
  EXPECT_EQ(full.append_tree(Tokens{1, 2}, std::vector<int>{-1, -1}).status(), AppendStatus::kDone);
  Session reference =
      Model::load((testing_support::fixtures() / "zoo" / "qwen2").string(), {.backend = BackendChoice::kReference}).session();
  EXPECT_THAT([&] { (void)reference.append_tree(Tokens{1}, std::vector<int>{-1}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("the reference backend cannot")));
}

TEST(Threads, JoinedRunsGiveTheSameTextsAsAlone) {
  const Model model = load_small(), alone = load_small();
  constexpr int kThreads = 6;
  std::vector<Tokens> found(kThreads);
  std::vector<std::thread> threads;
  const auto options = [](int i) {
    return GenerateOptions{.max_tokens = 60, .sampling = {.temperature = 0.9, .seed = static_cast<uint64_t>(i)}, .ignore_eos = true};
  };
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Generation generation = model.generate(text(10 + 7 * i, 3 + i), options(i));
      while (generation.next()) {}
      found[static_cast<size_t>(i)] = generation.ids();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kThreads; ++i) {
    Generation generation = alone.generate(text(10 + 7 * i, 3 + i), options(i));
    while (generation.next()) {}
    EXPECT_EQ(found[static_cast<size_t>(i)], generation.ids()) << i;
  }
}

}  // namespace
}  // namespace kvik
