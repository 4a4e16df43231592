// Targets of all forms of encoder-decoders; forced, banned and sampled tokens.
#include <algorithm>
#include <climits>
#include <gmock/gmock.h>
#include <numeric>
#include <set>

#include "engine/translators.h"
#include "kvik/error.h"

namespace kvik::engine {
namespace {

std::filesystem::path form(const char* name) { return testing_support::fixtures() / "forms" / name; }

void expect_form(const char* name, bool ort) {
  const Loaded model = load(form(name), ort);
  KVIK_NEEDS_ORT(model.backend);
  const Json known = read_json_file(form(name) / "expect.json");
  std::vector<Ids> sources, greedy;
  for (const Json& one : known["cases"]) {
    sources.push_back(one["source_ids"]);
    greedy.push_back(one["greedy_ids"]);
    const Wanted wanted{1, greedy.back().size(), one["prompt_ids"]};
    EXPECT_EQ(translated(model, {sources.back()}, wanted).front(), greedy.back()) << name;
  }
  const Wanted wanted{1, greedy.back().size(), known["cases"][0]["prompt_ids"]};
  EXPECT_EQ(translated(model, sources, wanted), greedy) << name << " in a batch";
}

TEST(Targets, APairThatReturnsItsCrossCacheUnchangedGivesItsIds) {
  expect_form("translator-pair", false);
  expect_form("translator-pair", true);
}

TEST(Targets, ADecoderWithARecurrentStateAndTokensOfRankOneGivesItsIds) {
  expect_form("recurrent-translator", false);
  expect_form("recurrent-translator", true);
}

TEST(Targets, BeamsOfARecurrentDecoderAreForksOfItsState) {
  const Loaded model = load(form("recurrent-translator"), false);
  const std::vector<Ids> sources = {{47}, {34, 22, 13, 47}};
  const std::vector<Ids> together = translated(model, sources, {3, 6});
  EXPECT_EQ(translated(model, {sources[0]}, {3, 6}).front(), together[0]);
  EXPECT_EQ(translated(model, {sources[1]}, {3, 6}).front(), together[1]);
}

// What the files say changed for a test.
struct Changed {
  Loaded model = load(form("translator-pair"), false);
  Sampling& sampling = model.config.sampling;
  std::vector<Ids> sources = {{12}, {45, 34, 34, 40}, {43, 14, 13, 23, 43, 6, 12, 26, 12}};

  Ids first(const Wanted& wanted = {1, 8}) const { return translated(model, {sources[1]}, wanted).front(); }
};

TEST(Targets, TheFirstAndTheLastTokenAreForcedAsConfigured) {
  for (const int beams : {1, 4}) {
    Changed changed;
    changed.sampling.forced_bos_token_id = 7;
    changed.sampling.forced_eos_token_id = {{49}};
    const Ids ids = changed.first({beams, 5});
    EXPECT_EQ(ids.front(), 7);
    EXPECT_EQ(ids.back(), 49);
  }
}

TEST(Targets, BannedTokensAreNeverGeneratedAndBeginSuppressedOnesNotFirst) {
  for (const int beams : {1, 4}) {
    Changed changed;
    const Ids plain = changed.first({beams, 8});
    changed.sampling.begin_suppress_tokens = {{plain[0]}};
    EXPECT_NE(changed.first({beams, 8}).front(), plain[0]);
    changed.sampling.begin_suppress_tokens.reset();
    changed.sampling.suppress_tokens = {{plain[1]}};
    EXPECT_THAT(changed.first({beams, 8}), testing::Not(testing::Contains(plain[1])));
    changed.sampling.suppress_tokens.reset();
    changed.sampling.bad_words_ids = {{{plain[0], plain[1]}}};
    const Ids banned = changed.first({beams, 8});
    EXPECT_FALSE(banned[0] == plain[0] && banned[1] == plain[1]);
  }
}

TEST(Targets, NoEndTokenIsGeneratedBeforeTheMinimumLength) {
  Changed changed;
  const Ids plain = changed.first();
  changed.model.config.eos = {plain[1]};  // what comes second now ends it
  EXPECT_EQ(changed.first().size(), 2u);
  changed.sampling.min_new_tokens = 4;
  EXPECT_GE(changed.first().size(), 5u);
  changed.sampling.min_new_tokens = 0;
  changed.sampling.min_length = 4;  // the start token counts
  EXPECT_GE(changed.first().size(), 4u);
}

TEST(Targets, NoRepeatNgramSizeForbidsRepetition) {
  Changed changed;
  changed.sampling.no_repeat_ngram_size = 1;
  const Ids ids = changed.first({1, 20});
  EXPECT_EQ(std::set<TokenId>(ids.begin(), ids.end()).size(), ids.size());
}

TEST(Targets, PenaltiesOfAGreedySearchActOnLogitsAsTheReferenceDoes) {
  // On log-probabilities, which are all negative, a penalty would act otherwise than on logits of either sign.
  Changed changed;
  changed.sampling.repetition_penalty = 1.7;
  const TargetOptions options = options_for(changed.model, {1, 8});
  const Ids found = best_of(targets_of(changed.model, {changed.sources[1]}, options)).front();
  const std::vector<EncodedSource> encoded = encode_tokens(*changed.model.backend, std::vector<Ids>{changed.sources[1]});
  Ids tokens = options.start;
  for (const TokenId expected : found) {
    const auto cache = changed.model.backend->new_cache(encoded.front().encoded);
    std::vector<backend::Row> rows;
    for (size_t i = 0; i < tokens.size(); ++i) rows.push_back({tokens[i], static_cast<int>(i), 0, i + 1 == tokens.size()});
    backend::Cache* const caches[] = {cache.get()};
    backend::Logits logits;
    ASSERT_EQ(changed.model.backend->run(rows, caches, logits), backend::RunStatus::kDone);
    std::vector<float> row(logits.row(0).begin(), logits.row(0).end());
    for (const TokenId seen : std::set<TokenId>(tokens.begin(), tokens.end())) {
      float& logit = row[static_cast<size_t>(seen)];
      logit = logit > 0 ? logit / 1.7f : logit * 1.7f;
    }
    EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), expected);
    tokens.push_back(expected);
  }
}

TEST(Targets, ASeedGivesTheSameTargetAloneAndInABatchAndAnotherSeedAnother) {
  Changed changed;
  changed.sampling.temperature = 1.5;
  TargetOptions options = options_for(changed.model, {1, 12});
  options.seed = 11;
  const std::vector<Ids> together = best_of(targets_of(changed.model, changed.sources, options));
  for (size_t i = 0; i < changed.sources.size(); ++i) {
    std::vector<EncodedSource> alone = encode_tokens(*changed.model.backend, std::vector<Ids>{changed.sources[i]});
    alone.front().stream = i;
    EXPECT_EQ(best_of(find_targets(changed.model.decoder(), changed.model.sampler(), alone, options)).front(), together[i]);
  }
  options.seed = 12;
  EXPECT_NE(best_of(targets_of(changed.model, changed.sources, options)), together);
}

TEST(Targets, SeveralSamplesOfOneSourceDifferAndAreSortedByScore) {
  Changed changed;
  changed.sampling.temperature = 1.5;
  TargetOptions options = options_for(changed.model, {1, 12});
  options.beams.num_return_sequences = 4;
  const std::vector<Target> found = targets_of(changed.model, {changed.sources[2]}, options).front().targets;
  ASSERT_EQ(found.size(), 4u);
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.score > b.score; }));
  std::set<Ids> different;
  for (const Target& one : found) different.insert(one.ids);
  EXPECT_GT(different.size(), 2u);
  EXPECT_EQ(changed.model.backend->source_work().encoded, 1);
}

TEST(Targets, ABeamOfOneIsTheGreedySearch) {
  const Changed changed;
  TargetOptions options = options_for(changed.model, {1, 10});
  const std::vector<FoundTargets> greedy = targets_of(changed.model, changed.sources, options);
  options.always_beams = true;
  const std::vector<FoundTargets> searched = targets_of(changed.model, changed.sources, options);
  for (size_t i = 0; i < greedy.size(); ++i) {
    EXPECT_EQ(greedy[i].targets.front().ids, searched[i].targets.front().ids);
    EXPECT_NEAR(greedy[i].targets.front().score, searched[i].targets.front().score, 1e-5);
    EXPECT_EQ(greedy[i].targets.front().finish, searched[i].targets.front().finish);
  }
}

TEST(Targets, SuppressingEveryTokenIsTheSameErrorWithBeamsAndWithout) {
  for (const int beams : {1, 4}) {
    Changed changed;
    Ids all(50);
    std::iota(all.begin(), all.end(), 0);
    changed.sampling.suppress_tokens = all;
    EXPECT_THAT(
        [&] {
          changed.first({beams, 8});
        },
        testing::ThrowsMessage<Error>("no token can be chosen: all 50 are suppressed; allow at least one"));
  }
}

TEST(Targets, CancellationIsAValue) {
  const Changed changed;
  int n_polled = 0;
  const std::vector<FoundTargets> found =
      find_targets(changed.model.decoder(), changed.model.sampler(), encode_tokens(*changed.model.backend, changed.sources),
                   options_for(changed.model, {4, 20}), [&] { return ++n_polled > 3; });
  for (const FoundTargets& one : found) EXPECT_EQ(one.finish, Finish::kCancelled);
}

TEST(Targets, SeveralGreedyTargetsTooManySamplesAndNoRoomAreErrors) {
  Changed changed;
  const auto expect_error = [&](int returned, size_t max_length, const char* message) {
    TargetOptions options = options_for(changed.model, {1, 10});
    options.beams.num_return_sequences = returned;
    options.beams.max_length = max_length;
    EXPECT_THAT([&] { targets_of(changed.model, changed.sources, options); }, testing::ThrowsMessage<Error>(testing::HasSubstr(message)));
  };
  expect_error(3, 11, "greedy search has one result");
  expect_error(1, 1, "the length limit is 1");
  changed.sampling.temperature = 1.0;
  expect_error(INT_MAX, 11, "num_return_sequences is 2147483647; it must be from 1 to 1024");
}

class TwoFolders {
 public:
  void take(const std::filesystem::path& folder, const std::string& name) const {
    std::filesystem::copy_file(folder / name, folder_.path() / name, std::filesystem::copy_options::overwrite_existing);
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  testing_support::TemporaryFolder folder_;
};

TEST(Targets, ADecoderWithoutItsEncoderIsAnError) {
  const TwoFolders folder;
  for (const char* name : {"decoder_model.onnx", "decoder_with_past_model.onnx", "config.json"}) folder.take(form("translator-pair"), name);
  EXPECT_THAT([&] { testing_support::open_reference(folder.path()); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("decoder_model.onnx attends to an encoder, and no encoder file was found")));
}

TEST(Targets, AnEncoderAndADecoderOfDifferentModelsAreAnError) {
  const TwoFolders folder;
  for (const char* name : {"decoder_model.onnx", "decoder_with_past_model.onnx", "config.json"}) folder.take(form("translator-pair"), name);
  folder.take(testing_support::fixtures() / "zoo" / "marian", "encoder_model.onnx");
  EXPECT_THAT([&] { testing_support::open_reference(folder.path()); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("decoder_model.onnx reads 'encoder_hidden_states' as")));
  const std::vector<std::string> problems = analysis::analyze(folder.path()).problems;
  EXPECT_THAT(problems, testing::Contains(testing::HasSubstr("they are not from the same model")));
}

}  // namespace
}  // namespace kvik::engine
