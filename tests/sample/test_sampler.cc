#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvik/error.h"
#include "sample/choice.h"
#include "sample/fixture.h"
#include "sample/log_softmax.h"
#include "sample/rows.h"
#include "sample/sampler.h"
#include "support/allocations.h"

namespace kvik::sample {
namespace {

using Ids = std::vector<TokenId>;

// By logit and then by id, with all that equal the last.
std::vector<TokenLogit> largest_of(std::span<const float> row, size_t n) {
  std::vector<TokenLogit> all;
  for (size_t i = 0; i < row.size(); ++i) all.push_back({row[i], static_cast<TokenId>(i)});
  std::ranges::stable_sort(all, std::greater(), &TokenLogit::logit);
  while (n < all.size() && all[n].logit == all[n - 1].logit) ++n;
  all.resize(std::min(n, all.size()));
  return all;
}

// Options that only make logits smaller.
std::vector<Sampling> lowering_options() {
  std::vector<Sampling> all(6);
  all[1].repetition_penalty = 1.3;
  all[2].presence_penalty = 0.5, all[2].frequency_penalty = 0.2;
  all[3].suppress_tokens = {1, 2, 3, 400}, all[3].min_new_tokens = 5;
  all[4].no_repeat_ngram_size = 2, all[4].bad_words_ids = {{{7}, {8, 9}}};
  all[5].logit_bias = {{{11, -2.0}, {12, -100.0}}}, all[5].repetition_penalty = 1.1;
  return all;
}

// Rows with ties, and temperatures at which different logits have one quotient.
TEST(Sampler, CandidatesGiveTheSameChoiceAsTheRow) {
  constexpr size_t kRowSize = 500;
  Workspace workspace;
  int n_decided = 0, n_undecided = 0;
  for (Sampling options : lowering_options()) {
    for (const int top_k : {0, 1, 3, 40, 63, 64}) {
      for (const double temperature : {0.0, 0.3, 1.0, 7.7}) {
        for (const double top_p : {1.0, 0.8}) {
          options.temperature = temperature, options.top_k = top_k, options.top_p = top_p;
          const Sampler sampler(options, {.vocab_size = kRowSize, .eos = {5}, .unsupported = {0}});
          for (uint64_t seed = 0; seed < 40; ++seed) {
            const std::vector<float> row = fixture_row(seed, kRowSize, 6.0, seed % 2 == 0 ? int64_t{1} << 24 : 30);
            const std::vector<TokenLogit> largest = largest_of(row, 64);
            Ids tokens;  // half of them among the likeliest
            for (size_t i = 0; i < 40; ++i) tokens.push_back(i % 2 == 0 ? largest[i].id : static_cast<TokenId>(i * 7 + seed));
            const History history{tokens, 20, 100};
            Rng rng(seed), other(seed);
            const std::optional<TokenId> chosen = sampler.sample_candidates(largest, history, rng, workspace);
            if (!chosen) {
              EXPECT_EQ(rng.uniform(), Rng(seed).uniform());
              ++n_undecided;
              continue;
            }
            ++n_decided;
            EXPECT_EQ(*chosen, sampler.sample(row, history, other, workspace)) << top_k << ' ' << temperature << ' ' << seed;
            EXPECT_EQ(rng.uniform(), other.uniform());
          }
        }
      }
    }
  }
  EXPECT_GT(n_decided, 6000);
  EXPECT_GT(n_undecided, 1000);
}

// The n best of a beam: by its score with the token, then by id.
std::vector<TokenLogit> best_of(std::vector<TokenLogit> entries, float sum, size_t n) {
  std::erase_if(entries, [](const TokenLogit& entry) { return entry.logit == -kInfinity; });
  for (TokenLogit& entry : entries) entry.logit += sum;
  std::ranges::stable_sort(entries, std::greater(), &TokenLogit::logit);
  entries.resize(std::min(n, entries.size()));
  return entries;
}

bool are_equal(std::span<const TokenLogit> a, std::span<const TokenLogit> b) {
  return std::ranges::equal(a, b, [](const TokenLogit& x, const TokenLogit& y) { return x.logit == y.logit && x.id == y.id; });
}

// Sums so large that many log-probabilities give one score, rows with ties, NaN and infinities, and with fewer blocks than entries that are
// asked for.
TEST(Sampler, TheBestLogProbsAreThoseOfTheWholeRow) {
  Workspace workspace;
  std::vector<TokenLogit> best;
  int n_found = 0, n_asked = 0;
  for (const Sampling& options : lowering_options()) {
    for (const size_t size : {401, 448, 511, 700, 5000}) {
      const Sampler sampler(options, {.vocab_size = size, .eos = {0}});
      for (size_t kind = 0; kind < row_kinds().size(); ++kind) {
        std::vector<float> row = random_row(size, kind + size, row_kinds()[kind]);
        if (kind == 2) row[size / 2] = kNan, row[size / 3] = kInfinity;
        const std::vector<TokenLogit> largest = largest_of(row, 12);
        Ids tokens = {0, 0, largest.front().id, largest.back().id, 0};
        if (kind % 2 == 1)
          std::ranges::transform(largest, std::back_inserter(tokens), &TokenLogit::id);  // penalties lower more than enough
        const History history{tokens, 2, 100};
        std::vector<float> all(size);
        sampler.log_probs(row, history, all, workspace);
        std::vector<TokenLogit> entries;
        for (size_t i = 0; i < size; ++i) entries.push_back({all[i], static_cast<TokenId>(i)});
        for (const float sum : {0.0f, -3.7f, -1e6f}) {
          for (const size_t n : {2, 8, 40}) {
            ++n_asked;
            if (!sampler.best_log_probs(row, history, sum, n, best, workspace)) continue;
            ++n_found;
            EXPECT_TRUE(std::ranges::is_sorted(best, {}, &TokenLogit::id));
            EXPECT_TRUE(are_equal(best_of(best, sum, n), best_of(entries, sum, n)))
                << size << " logits, kind " << kind << ", sum " << sum << ", n " << n;
          }
        }
      }
    }
  }
  EXPECT_GT(n_found, n_asked / 2);
}

TEST(Sampler, ReadsTheWholeRowIfALogitMayBecomeLargerOrAllMayBeDrawn) {
  const auto n_candidates = [](const Sampling& options) { return Sampler(options, {.vocab_size = 20}).n_candidates(); };
  Sampling greedy, drawn;
  greedy.temperature = 0.0;
  drawn.temperature = 1.0, drawn.top_k = 5;
  EXPECT_EQ(n_candidates(greedy), 1);
  EXPECT_EQ(n_candidates(drawn), 6);
  drawn.repetition_penalty = 1.2;
  EXPECT_GT(n_candidates(drawn), 6);
  drawn.repetition_penalty = 0.9;
  EXPECT_EQ(n_candidates(drawn), 0);
  drawn.repetition_penalty = 1.0, drawn.logit_bias = {{{3, 0.5}}};
  EXPECT_EQ(n_candidates(drawn), 0);
  drawn.logit_bias.reset(), drawn.top_k = 0;
  EXPECT_EQ(n_candidates(drawn), 0);
  greedy.exponential_decay_length_penalty = DecayLengthPenalty{2, 1.0};
  EXPECT_EQ(n_candidates(greedy), 1);
  greedy.exponential_decay_length_penalty->factor = 1.1;
  EXPECT_EQ(n_candidates(greedy), 0);
}

// A greedy choice and its log-probability come from single entries of the row if nothing else can decide them.
TEST(Sampler, ChoosesGreedilyWhatIsLargestInTheProcessedRow) {
  constexpr size_t kRowSize = 500;
  Workspace workspace;
  int n_changed = 0;
  for (Sampling options : lowering_options()) {
    options.temperature = 0.0, options.forced_eos_token_id = {5};
    const Sampler sampler(options, {.vocab_size = kRowSize, .eos = {5}, .unsupported = {0}});
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const std::vector<float> row = fixture_row(seed, kRowSize, 6.0, seed % 2 == 0 ? int64_t{1} << 24 : 30);
      Ids tokens = {8, 9, 8};
      for (const TokenLogit& likely : largest_of(row, 3)) tokens.push_back(likely.id);
      for (const size_t max_length : {tokens.size() + 1, tokens.size() + 9}) {  // the last token is forced to be an end
        const History history{tokens, 1, max_length};
        std::vector<float> processed = row, log_probs(kRowSize);
        sampler.process(processed, history, workspace);
        const auto expected = static_cast<TokenId>(*choose_greedily(processed));
        n_changed += expected != static_cast<TokenId>(*choose_greedily(row)) ? 1 : 0;
        Rng rng(seed);
        EXPECT_EQ(sampler.sample(row, history, rng, workspace), expected) << seed;
        sampler.log_probs(row, history, log_probs, workspace);
        for (const TokenId id : {expected, tokens.back(), TokenId{3}})
          EXPECT_EQ(sampler.log_prob(row, history, id, workspace), log_probs[static_cast<size_t>(id)]) << seed << ' ' << id;
      }
    }
  }
  EXPECT_GT(n_changed, 300);
}

TEST(Sampler, MatchesTheRowsOfTheReferenceImplementation) {
  const Json cases = sampling_fixture("rows.json");
  Workspace workspace;
  ASSERT_GE(cases.size(), 400u);
  for (const Json& test : cases) {
    SCOPED_TRACE(test.dump());
    const Ids tokens = ids_from(test["tokens"]), source = ids_from(test["source"]);
    const auto vocab = test["vocab"].get<size_t>();
    const Sampler sampler(options_from(test["options"]), rules_from(test["options"], vocab));
    std::vector<float> row = fixture_row(test["seed"], vocab, test["spread"], test["levels"]);
    const History history{tokens, test["prompt_length"], test["max_length"], source};
    sampler.process(row, history, workspace);
    sampler.filter(row, workspace);
    const bool normalized = *sampler.options().renormalize_logits;
    if (normalized) log_softmax(row, row);
    if (test.contains("kept")) {
      Ids kept;
      for (size_t i = 0; i < vocab; ++i) {
        if (row[i] > -kInfinity) kept.push_back(static_cast<TokenId>(i));
      }
      ASSERT_EQ(kept, ids_from(test["kept"]));
      continue;
    }
    for (size_t i = 0; i < vocab; ++i) {
      const float expected = test["row"][i].is_null() ? -kInfinity : static_cast<float>(test["row"][i].get<double>());
      if (normalized && expected > -kInfinity) {
        ASSERT_NEAR(row[i], expected, 1e-5f * (1.0f + std::abs(expected))) << i;
      } else {
        ASSERT_EQ(row[i], expected) << i;
      }
    }
  }
}

Sampling random_options(std::mt19937_64& random) {
  const auto pick = [&](std::initializer_list<double> values) { return values.begin()[random() % values.size()]; };
  return {.temperature = pick({0.0, 0.5, 1.0, 1.7}),
          .top_k = static_cast<int>(pick({0, 0, 1, 20})),
          .top_p = pick({1.0, 0.9, 0.5}),
          .min_p = pick({0.0, 0.05}),
          .typical_p = pick({1.0, 1.0, 0.9}),
          .epsilon_cutoff = pick({0.0, 0.0, 0.001}),
          .repetition_penalty = pick({1.0, 1.2}),
          .presence_penalty = pick({0.0, 0.3}),
          .frequency_penalty = pick({0.0, 0.4}),
          .no_repeat_ngram_size = static_cast<int>(pick({0, 2})),
          .logit_bias = {{{0, pick({0.0, 1.5, -kInfinity})}}}};
}

// The options one after the other on the whole row.
std::optional<size_t> chosen_plainly(const Sampling& o, std::vector<float> row, const History& history, Rng& rng) {
  FilterScratch scratch;
  TokenCounts counts;
  for (const auto& [id, bias] : *o.logit_bias) row[static_cast<size_t>(id)] += static_cast<float>(bias);
  penalize_repetition(row, history.tokens, *o.repetition_penalty, counts);
  penalize_counts(row, history.generated(), {*o.presence_penalty, *o.frequency_penalty}, counts);
  ban_repeated_ngrams(row, history.tokens, static_cast<size_t>(*o.no_repeat_ngram_size));
  if (o.temperature == 0.0) return choose_greedily(row);
  for (float& logit : row) logit = at_temperature(logit, *o.temperature);
  if (*o.top_k > 0) keep_top_k(row, static_cast<size_t>(*o.top_k), scratch);
  if (*o.top_p < 1.0) keep_top_p(row, *o.top_p, scratch);
  keep_min_p(row, *o.min_p);
  if (*o.typical_p < 1.0) keep_typical(row, *o.typical_p, scratch);
  if (*o.epsilon_cutoff > 0.0) cut_epsilon(row, *o.epsilon_cutoff);
  return choose_randomly(row, rng, scratch);
}

std::optional<TokenId> sample_if_possible(const Sampler& sampler, std::span<const float> row, const History& history, Rng& rng) {
  static Workspace workspace;
  try {
    return sampler.sample(row, history, rng, workspace);
  } catch (const Error&) { return std::nullopt; }
}

TEST(Sampler, GivesTheSameChoiceAsTheStepsOneByOne) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    std::mt19937_64 random(seed);
    const size_t vocab = 1 + random() % (seed % 50 == 0 ? 50000 : 200);
    std::vector<float> row = random_row(vocab, seed, row_kinds()[seed % row_kinds().size()]);
    Ids tokens(2 + random() % 30);
    for (TokenId& id : tokens) id = static_cast<TokenId>(random() % std::min<size_t>(vocab, 12));
    const History history{tokens, 1 + random() % tokens.size()};
    const Sampling options = random_options(random);
    Rng rng(seed), same(seed);
    const std::optional<size_t> expected = chosen_plainly(options, row, history, same);
    const std::vector<float> before = row;
    const std::optional<TokenId> got = sample_if_possible(Sampler(options, {vocab}), row, history, rng);
    ASSERT_EQ(static_cast<size_t>(got.value_or(-1)), expected.value_or(static_cast<size_t>(-1))) << seed;
    ASSERT_EQ(std::memcmp(row.data(), before.data(), row.size() * sizeof(float)), 0) << "a choice changed the logits";
    ASSERT_EQ(rng.position(), same.position());
  }
}

TEST(Sampler, AStepAllocatesNothingOnceItIsWarm) {
  const Sampler sampler({.temperature = 0.9,
                         .top_k = 100,
                         .top_p = 0.9,
                         .min_p = 0.01,
                         .typical_p = 0.99,
                         .repetition_penalty = 1.1,
                         .presence_penalty = 0.1,
                         .no_repeat_ngram_size = 3,
                         .suppress_tokens = {{5}},
                         .bad_words_ids = {{{1, 2}}},
                         .logit_bias = {{{3, 1.0}}}},
                        {5000});
  Workspace workspace;
  Rng rng(1);
  Ids tokens;
  std::vector<float> row(5000);
  const auto step = [&](uint64_t seed) {
    row = fixture_row(seed, row.size(), 32);
    const int64_t before = testing_support::n_allocations();
    tokens.push_back(sampler.sample(row, {tokens, 0}, rng, workspace));
    return testing_support::n_allocations() - before;
  };
  tokens.reserve(1000);
  for (uint64_t i = 0; i < 100; ++i) step(i);
  int64_t later = 0;
  for (uint64_t i = 100; i < 110; ++i) later += step(i);
  EXPECT_EQ(later, 0);
}

TEST(Sampler, TheSameSeedGivesTheSameSequenceDespiteOtherSamplesInBetween) {
  const Sampler sampler({.temperature = 1.0, .top_p = 0.9}, {300});
  const auto run = [&](bool disturbed) {
    Workspace workspace;
    Rng rng(11, 2), other(11, 3);
    Ids tokens = {1};
    for (uint64_t i = 0; i < 50; ++i) {
      std::vector<float> row = fixture_row(i, 300, 16), copy = row;
      if (disturbed) sampler.sample(copy, {tokens, 1}, other, workspace);
      tokens.push_back(sampler.sample(row, {tokens, 1}, rng, workspace));
    }
    return tokens;
  };
  EXPECT_EQ(run(false), run(true));
}

TEST(Sampler, ATinyTemperatureIsGreedyAndDoesNotOverflow) {
  Workspace workspace;
  Rng rng(1);
  for (const double temperature : {1e-300, 1e-30, 1e-18, 1e-7}) {
    std::vector<float> row = fixture_row(1, 1000, 64);
    const std::optional<size_t> largest = choose_greedily(row);
    EXPECT_EQ(static_cast<size_t>(Sampler({.temperature = temperature}, {1000}).sample(row, {}, rng, workspace)), *largest);
  }
}

TEST(Sampler, SuppressingEveryTokenIsAnErrorWithTheReason) {
  Workspace workspace;
  Rng rng(1);
  for (const double temperature : {0.0, 1.0}) {
    const Sampler sampler({.temperature = temperature, .top_k = 5, .top_p = 0.5, .suppress_tokens = {{0, 1, 2}}}, {3});
    std::vector<float> row = {1.0f, 2.0f, 3.0f};
    EXPECT_THAT([&] { sampler.sample(row, {}, rng, workspace); },
                testing::ThrowsMessage<Error>("no token can be chosen: all 3 are suppressed; allow at least one"));
  }
}

TEST(Sampler, PresenceAndFrequencyCountGeneratedTokensRepetitionThePromptToo) {
  Workspace workspace;
  const Ids tokens = {0, 0, 1, 1};
  std::vector<float> row = {8.0f, 8.0f, 8.0f};
  Sampler({.presence_penalty = 1.0, .frequency_penalty = 0.5}, {3}).process(row, {tokens, 2}, workspace);
  EXPECT_THAT(row, testing::ElementsAre(8.0f, 6.0f, 8.0f));
  row = {8.0f, 8.0f, 8.0f};
  Sampler({.repetition_penalty = 2.0}, {3}).process(row, {tokens, 2}, workspace);
  EXPECT_THAT(row, testing::ElementsAre(4.0f, 4.0f, 8.0f));
}

TEST(Sampler, AnOptionOutOfRangeIsAnError) {
  EXPECT_THAT([] { Sampler({.top_p = 2.0}, {10}); }, testing::ThrowsMessage<Error>(testing::HasSubstr("top_p is 2")));
  EXPECT_THAT([] { Sampler({.logit_bias = {{{10, 1.0}}}}, {10}); }, testing::ThrowsMessage<Error>(testing::HasSubstr("logit_bias")));
}

}  // namespace
}  // namespace kvik::sample
