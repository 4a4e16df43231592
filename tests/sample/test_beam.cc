#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "kvik/error.h"
#include "sample/beam.h"
#include "sample/choice.h"
#include "sample/fixture.h"
#include "sample/rows.h"
#include "sample/sampler.h"

namespace kvik::sample {
namespace {

using Ids = std::vector<TokenId>;
const Ids kPrompt = {0};
const std::vector<std::span<const TokenId>> kStart = {kPrompt};

// A language model whose logits are a hash of all tokens so far; the end tokens grow likelier with every token.
struct TableModel {
  uint64_t seed;
  size_t vocab;
  double spread;
  double end_growth;
  Ids ends;

  std::vector<float> logits(std::span<const TokenId> tokens) const {
    uint64_t state = seed;
    for (const TokenId token : tokens) state = mix(state ^ (static_cast<uint64_t>(token) + 1));
    std::vector<float> row = fixture_row(state, vocab, spread);
    for (const TokenId end : ends) row[static_cast<size_t>(end)] += static_cast<float>(end_growth * static_cast<double>(tokens.size()));
    return row;
  }
};

BeamOptions beam_options_from(const Json& options) {
  const auto early = [](const Json& value) {
    if (value.is_string()) return EarlyStopping::kNever;
    return value.get<bool>() ? EarlyStopping::kTrue : EarlyStopping::kFalse;
  };
  return {.num_beams = options["num_beams"],
          .num_return_sequences = options["num_return_sequences"],
          .length_penalty = options["length_penalty"],
          .early_stopping = early(options["early_stopping"]),
          .max_length = options["max_length"],
          .eos_token_id = options.contains("eos_token_id") ? ids_from(options["eos_token_id"]) : Ids()};
}

// Runs a search to its end; the caches of a real model are stood for by copies of the tokens, forked as the steps say.
std::vector<Candidate> search(const TableModel& model, const BeamOptions& options, const Sampler& sampler, const Ids& prompt) {
  Workspace workspace;
  BeamSearch beams(options, prompt.size(), model.vocab);
  std::vector<Ids> caches = {prompt};
  while (!beams.done()) {
    std::vector<float> rows;
    for (size_t beam = 0; beam < beams.n_beams(); ++beam) {
      std::vector<float> row = model.logits(caches[beam]);
      sampler.log_probs(row, {caches[beam], prompt.size(), options.max_length}, row, workspace);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    std::vector<Ids> next;
    const std::vector<std::span<const TokenId>> tokens(caches.begin(), caches.end());
    for (const Continuation& continuation : beams.advance(rows, tokens)) {
      next.push_back(caches.at(continuation.from));
      next.back().push_back(continuation.token);
    }
    caches = std::move(next);
  }
  return beams.best();
}

TEST(BeamSearch, MatchesTheReferenceImplementation) {
  const Json cases = sampling_fixture("beams.json");
  ASSERT_GE(cases.size(), 300u);
  for (const Json& test : cases) {
    SCOPED_TRACE(test.dump());
    const BeamOptions options = beam_options_from(test["options"]);
    const TableModel model{test["seed"], test["vocab"], test["spread"], test["end_growth"], options.eos_token_id};
    const Sampler sampler(options_from(test["options"]), rules_from(test["options"], model.vocab));
    for (size_t source = 0; source < test["prompts"].size(); ++source) {
      const std::vector<Candidate> found = search(model, options, sampler, ids_from(test["prompts"][source]));
      const Json& expected = test["results"][source];
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].ids, ids_from(expected[i]["ids"])) << "source " << source << ", hypothesis " << i;
        const auto score = expected[i]["score"].get<float>();
        ASSERT_NEAR(found[i].score, score, 1e-5f * (1.0f + std::abs(score)));
      }
    }
  }
}

// All sequences, scored one by one.
void enumerate(const TableModel& model, const BeamOptions& options, Ids& tokens, double score, std::vector<Candidate>& all) {
  std::vector<float> row = model.logits(tokens);
  Workspace workspace;
  Sampler({}, {model.vocab}).log_probs(row, {tokens, 1}, row, workspace);
  for (size_t i = 0; i < row.size(); ++i) {
    tokens.push_back(static_cast<TokenId>(i));
    const double sum = score + static_cast<double>(row[i]);
    const bool ends = std::ranges::find(options.eos_token_id, tokens.back()) != options.eos_token_id.end();
    if (ends || tokens.size() == options.max_length) {
      all.push_back({Ids(tokens.begin() + 1, tokens.end()), static_cast<float>(sum)});
    } else {
      enumerate(model, options, tokens, sum, all);
    }
    tokens.pop_back();
  }
}

TEST(BeamSearch, EnoughBeamsFindTheBestOfAllSequences) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const TableModel model{seed, 4, 8, 0.25, {3}};
    const BeamOptions options{.num_beams = 64,
                              .num_return_sequences = 5,
                              .length_penalty = 0.0,
                              .early_stopping = EarlyStopping::kNever,
                              .max_length = 5,
                              .eos_token_id = model.ends};
    std::vector<Candidate> all;
    Ids tokens = {1};
    enumerate(model, options, tokens, 0.0, all);
    std::ranges::sort(all, std::greater<>(), &Candidate::score);
    const std::vector<Candidate> found = search(model, options, Sampler({}, {4}), {1});
    ASSERT_EQ(found.size(), 5u);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].ids, all[i].ids) << seed;
  }
}

TEST(BeamSearch, OneBeamIsGreedySearch) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const TableModel model{seed, 30, 8, 0.25, {3, 7}};
    for (const EarlyStopping early : {EarlyStopping::kFalse, EarlyStopping::kTrue, EarlyStopping::kNever}) {
      const BeamOptions options{.early_stopping = early, .max_length = 20, .eos_token_id = model.ends};
      Ids tokens = {1};
      while (tokens.size() < options.max_length) {
        tokens.push_back(static_cast<TokenId>(*choose_greedily(model.logits(tokens))));
        if (std::ranges::find(model.ends, tokens.back()) != model.ends.end()) break;
      }
      const std::vector<Candidate> found = search(model, options, Sampler({}, {30}), {1});
      ASSERT_EQ(found.size(), 1u);
      EXPECT_EQ(found[0].ids, Ids(tokens.begin() + 1, tokens.end()));
    }
  }
}

TEST(BeamSearch, SelectsFromALargeVocabularyWhatASortOfAllSelects) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const size_t vocab = 30000;
    BeamSearch beams({.num_beams = 5, .max_length = 10}, 1, vocab);
    const std::vector<float> row = random_row(vocab, seed, row_kinds()[seed % row_kinds().size()]);
    std::vector<std::pair<float, size_t>> all;
    for (size_t i = 0; i < vocab; ++i) all.emplace_back(-row[i], i);
    std::ranges::sort(all);
    const std::span<const Continuation> steps = beams.advance(row, kStart);
    ASSERT_EQ(steps.size(), 5u);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(static_cast<size_t>(steps[i].token), all[i].second) << seed;
      EXPECT_EQ(steps[i].from, 0u);
    }
  }
}

// Whole rows, and only what may rank among the best, with ties between beams.
TEST(BeamSearch, TheBestOfEachRowGiveTheSameSteps) {
  constexpr size_t kVocab = 300;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const RowKind kind = row_kinds()[seed % row_kinds().size()];
    BeamSearch whole({.num_beams = 4, .max_length = 10, .eos_token_id = {3}}, 1, kVocab), few = whole;
    std::vector<Ids> tokens(4, Ids{1});
    for (int step = 0; step < 6 && !whole.done(); ++step) {
      std::vector<float> rows;
      std::vector<std::vector<TokenLogit>> best;
      std::vector<std::span<const TokenId>> lists;
      for (size_t beam = 0; beam < whole.n_beams(); ++beam) {
        const std::vector<float> row = random_row(kVocab, seed * 100 + static_cast<uint64_t>(step) * 10 + beam / 2, kind);
        rows.insert(rows.end(), row.begin(), row.end());
        lists.emplace_back(tokens[beam]);
        std::vector<TokenLogit> entries;
        for (size_t i = 0; i < kVocab; ++i)
          if (row[i] > -kInfinity) entries.push_back({row[i] + whole.score(beam), static_cast<TokenId>(i)});
        std::ranges::stable_sort(entries, std::greater(), &TokenLogit::logit);
        entries.resize(std::min(entries.size(), whole.n_extensions()));
        std::ranges::sort(entries, {}, &TokenLogit::id);
        for (TokenLogit& entry : entries) entry.logit = row[static_cast<size_t>(entry.id)];
        best.push_back(std::move(entries));
      }
      const auto expected = whole.advance(rows, lists);
      const auto found = few.started() ? few.advance(best, lists) : few.advance(rows, lists);
      ASSERT_EQ(found.size(), expected.size()) << seed;
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].from, expected[i].from) << seed;
        EXPECT_EQ(found[i].token, expected[i].token) << seed;
      }
      std::vector<Ids> next;
      for (const Continuation& continuation : expected) {
        next.push_back(tokens[continuation.from]);
        next.back().push_back(continuation.token);
      }
      tokens = std::move(next);
    }
  }
}

TEST(BeamSearch, SuppressingEverythingEndsTheSearchWithoutAResult) {
  BeamSearch beams({.num_beams = 3, .max_length = 10, .eos_token_id = {0}}, 1, 4);
  EXPECT_THAT(beams.advance(std::vector<float>(4, -kInfinity), kStart), testing::IsEmpty());
  EXPECT_TRUE(beams.done());
  EXPECT_THAT(beams.best(), testing::IsEmpty());
  BeamSearch not_numbers({.num_beams = 3, .max_length = 10}, 1, 4);
  EXPECT_THAT(not_numbers.advance(std::vector<float>(4, std::nanf("")), kStart), testing::IsEmpty());
  EXPECT_TRUE(not_numbers.done());
}

TEST(BeamSearch, FewerSequencesThanBeamsAreReturnedOnce) {
  // Two tokens, one of them the end, and room for two: there are three sequences.
  const TableModel model{5, 2, 2, 0.0, {1}};
  const BeamOptions options{
      .num_beams = 4, .num_return_sequences = 4, .early_stopping = EarlyStopping::kNever, .max_length = 3, .eos_token_id = {1}};
  std::vector<Ids> found;
  for (const Candidate& hypothesis : search(model, options, Sampler({}, {2}), {0})) found.push_back(hypothesis.ids);
  EXPECT_THAT(found, testing::UnorderedElementsAre(Ids{1}, Ids{0, 0}, Ids{0, 1}));
}

TEST(BeamSearch, OptionsOutOfRangeAreErrors) {
  const auto made_with = [](const BeamOptions& options, const Ids& prompt) { return [=] { BeamSearch(options, prompt.size(), 10); }; };
  const auto says = [](const char* text) { return testing::ThrowsMessage<Error>(testing::HasSubstr(text)); };
  EXPECT_THAT(made_with({.num_beams = 0}, {1}), says("num_beams is 0"));
  EXPECT_THAT(made_with({.num_beams = 1000000}, {1}), says("from 1 to 1024"));
  EXPECT_THAT(made_with({.num_beams = 2, .num_return_sequences = 3}, {1}), says("num_return_sequences is 3"));
  EXPECT_THAT(made_with({.length_penalty = std::nan("")}, {1}), says("length_penalty is nan"));
  EXPECT_THAT(made_with({.max_length = 3}, {1, 2, 3}), says("the prompt has 3 tokens and max_length is 3"));
}

}  // namespace
}  // namespace kvik::sample
