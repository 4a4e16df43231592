// Tokens of many streams are chosen at the same time: with the results of one thread, and errors stay with their stream.
#include <gtest/gtest.h>
#include <limits>

#include "engine/beam_strategy.h"
#include "engine/decoder.h"
#include "engine/sample_strategy.h"
#include "kvik/error.h"

namespace kvik::engine {
namespace {

constexpr int kVocab = 4096;
constexpr TokenId kBroken = 7;  // after it all logits are NaN

// Logits are made up from the token and its position.
class MadeUpBackend final : public backend::Backend {
 public:
  explicit MadeUpBackend(int n_threads) : pool_(n_threads) {
    traits_.exact = true;
    traits_.vocab = kVocab;
  }

  struct Length final : backend::Cache {
    explicit Length(int n) : n_positions(n) {}
    int length() const override { return n_positions; }
    size_t size_bytes() const override { return 0; }
    int n_positions;
  };

  const backend::Traits& traits() const override { return traits_; }
  int preferred_chunk() const override { return 64; }
  std::unique_ptr<backend::Cache> new_cache(std::shared_ptr<const backend::Source>, int) override { return std::make_unique<Length>(0); }
  bool can_continue(const backend::Cache&, int) const override { return true; }
  std::unique_ptr<backend::Cache> fork(const backend::Cache& cache) override { return std::make_unique<Length>(cache.length()); }
  void rewind(backend::Cache& cache, int length) override { static_cast<Length&>(cache).n_positions = length; }
  std::vector<Tensor> contents(const backend::Cache&) override { return {}; }
  std::unique_ptr<backend::Cache> restore(std::span<const TokenId> tokens, std::span<const Tensor>) override {
    return std::make_unique<Length>(static_cast<int>(tokens.size()));
  }
  std::vector<std::shared_ptr<const backend::Source>> encode(std::span<const Tensor>) override { return {}; }
  ThreadPool* pool() override { return &pool_; }

  backend::RunStatus run(std::span<const backend::Row> rows, std::span<backend::Cache* const> caches, backend::Logits& logits) override {
    int n = 0;
    for (const backend::Row& row : rows) n += row.wants_logits ? 1 : 0;
    logits.resize(n, kVocab);
    n = 0;
    for (const backend::Row& row : rows) {
      ++static_cast<Length*>(caches[static_cast<size_t>(row.sequence)])->n_positions;
      if (!row.wants_logits) continue;
      auto state = static_cast<uint32_t>(row.token * 7919 + row.position + 1);
      for (float& logit : logits.writable_row(n++)) {
        state = state * 1664525u + 1013904223u;
        logit = row.token == kBroken ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(state >> 12) * 0x1p-17f;
      }
    }
    return backend::RunStatus::kDone;
  }

 private:
  backend::Traits traits_;
  ThreadPool pool_;
};

std::unique_ptr<Strategy> strategy_of(int i) {
  const sample::TokenRules rules{kVocab, {}, {kBroken}};
  if (i % 3 == 0) {
    const auto sampler = std::make_shared<sample::Sampler>(Sampling{}, rules);
    return std::make_unique<BeamStrategy>(sampler, sample::BeamOptions{.num_beams = 4, .max_length = 24}, 1, std::vector<TokenId>{});
  }
  Sampling sampling;
  if (i % 3 == 1) sampling.temperature = 0.8, sampling.top_p = 0.9, sampling.repetition_penalty = 1.1;
  SampleOptions options;
  options.prompt_length = 1;
  options.stop.max_length = 24;
  options.seed = static_cast<uint64_t>(i);
  options.scores = true;
  return std::make_unique<SampleStrategy>(std::make_shared<sample::Sampler>(sampling, rules), std::move(options));
}

// Stream i begins with the token i + 20, but `broken` with one that cannot be continued.
std::vector<Stream> made_streams(const std::shared_ptr<Decoder>& decoder, int n, int broken = -1) {
  std::vector<Stream> streams;
  for (int i = 0; i < n; ++i) {
    Sequence sequence(decoder, 0);
    sequence.push(i == broken ? kBroken : i + 20);
    streams.emplace_back(std::move(sequence), strategy_of(i));
  }
  return streams;
}

void finish(Decoder& decoder, std::vector<Stream>& streams) {
  std::vector<Stream*> all;
  for (Stream& stream : streams) all.push_back(&stream);
  decoder.finish(all);
}

std::vector<Target> first_targets(std::span<const Stream> streams) {
  std::vector<Target> targets;
  for (const Stream& stream : streams) targets.push_back(stream.error ? Target{} : stream.strategy->targets().front());
  return targets;
}

TEST(Workers, ManyThreadsChooseTheTokensOfOne) {
  std::vector<std::vector<Target>> found;
  for (const int n_threads : {1, 4}) {
    const auto decoder = std::make_shared<Decoder>(std::make_shared<MadeUpBackend>(n_threads));
    std::vector<Stream> streams = made_streams(decoder, 24);
    finish(*decoder, streams);
    found.push_back(first_targets(streams));
  }
  for (size_t i = 0; i < found[0].size(); ++i) {
    EXPECT_EQ(found[0][i].ids, found[1][i].ids) << i;
    EXPECT_EQ(found[0][i].score, found[1][i].score) << i;
    EXPECT_EQ(found[0][i].ids.size(), 23u) << i;
  }
}

TEST(Workers, AnErrorEndsItsOwnStreamOnly) {
  const auto decoder = std::make_shared<Decoder>(std::make_shared<MadeUpBackend>(4));
  std::vector<Stream> streams = made_streams(decoder, 24, 5);
  EXPECT_THROW(finish(*decoder, streams), Error);
  for (size_t i = 0; i < streams.size(); ++i) EXPECT_EQ(static_cast<bool>(streams[i].error), i == 5) << i;
  std::vector<Stream> alone = made_streams(std::make_shared<Decoder>(std::make_shared<MadeUpBackend>(1)), 24);
  finish(alone.front().branches.front().decoder(), alone);
  const std::vector<Target> expected = first_targets(alone), found = first_targets(streams);
  for (size_t i = 0; i < streams.size(); ++i) {
    if (i == 5) continue;
    EXPECT_EQ(found[i].ids, expected[i].ids) << i;
  }
}

}  // namespace
}  // namespace kvik::engine
