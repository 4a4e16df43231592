// GenerateOptions::speculate and draft: the same output in fewer runs.
#include <gmock/gmock.h>
#include <thread>

#include "kvik/kvik.h"
#include "support/paths.h"

namespace kvik {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class Speculated : public testing::Test {
 protected:
  static Model load(LoadOptions options = {}) {
    options.backend = BackendChoice::kNative;
    options.threads = 2;
    return Model::load((testing_support::source_root() / "models" / "fable").string(), options);
  }
  Model model_ = load({.reuse_prefixes = false});
  std::shared_ptr<const Model> same_ = std::make_shared<const Model>(model_);
  std::vector<TokenId> prompt_ =
      model_.tokenize("The king said: the sun is warm. The queen said: the sun is warm. The king said: the sun is");

  struct Result {
    std::vector<TokenId> ids;
    std::string text;
    Finish finish = Finish::kStop;
    bool operator==(const Result&) const = default;
  };
  static Result result_of(Generation& generation) {
    Result result;
    result.text = generation.text();
    result.ids = generation.ids();
    result.finish = generation.finish();
    return result;
  }
  Result run(GenerateOptions options) const {
    Generation generation = model_.generate(prompt_, options);
    return result_of(generation);
  }
  void expect_same(const GenerateOptions& options) const {
    const Result plain = run(options);
    GenerateOptions with = options;
    with.speculate = Speculate::kLookup;
    EXPECT_EQ(run(with), plain);
    with.draft = same_;
    EXPECT_EQ(run(with), plain);
    with.speculate = Speculate::kOff;
    EXPECT_EQ(run(with), plain);
  }
};

TEST_F(Speculated, GreedyAndSampledOutputIsTheSame) {
  expect_same({.max_tokens = 80, .ignore_eos = true});
  expect_same({.max_tokens = 80, .sampling = {.temperature = 0.8, .top_k = 40, .seed = 3}});
  expect_same({.max_tokens = 80, .sampling = {.repetition_penalty = 1.2, .no_repeat_ngram_size = 3}, .ignore_eos = true});
}

TEST_F(Speculated, StopTextsAndStopIdsEndItAtTheSamePlace) {
  const Result whole = run({.max_tokens = 60, .ignore_eos = true});
  for (const size_t at : {whole.text.size() / 3, whole.text.size() / 2, whole.text.size() - 4})
    expect_same({.max_tokens = 60, .stop = {whole.text.substr(at, 3)}, .ignore_eos = true});
  expect_same({.max_tokens = 60, .stop_ids = {whole.ids[20]}, .ignore_eos = true});
}

TEST_F(Speculated, TheEndOfTheContextIsTheSame) {
  const Model small = load({.context = static_cast<int>(prompt_.size()) + 9, .reuse_prefixes = false});
  const auto run = [&](Speculate speculate, std::shared_ptr<const Model> draft) {
    Generation generation =
        small.generate(prompt_, {.max_tokens = 50, .ignore_eos = true, .speculate = speculate, .draft = std::move(draft)});
    return result_of(generation);
  };
  const Result plain = run(Speculate::kOff, nullptr);
  EXPECT_EQ(plain.ids.size(), 10u);
  EXPECT_EQ(run(Speculate::kLookup, nullptr), plain);
  EXPECT_EQ(run(Speculate::kOff, same_), plain);
}

TEST_F(Speculated, MetricsCountRunsAndProposals) {
  Generation plain = model_.generate(prompt_, {.max_tokens = 40, .ignore_eos = true});
  plain.text();
  EXPECT_EQ(plain.metrics().decode_runs, 39);
  EXPECT_EQ(plain.metrics().proposed_tokens, 0);
  Generation with = model_.generate(prompt_, {.max_tokens = 40, .ignore_eos = true, .draft = same_});
  with.text();
  const Metrics metrics = with.metrics();
  EXPECT_EQ(metrics.decode_tokens, 39);
  EXPECT_EQ(metrics.decode_runs + metrics.accepted_tokens, 39);
  EXPECT_GE(metrics.proposed_tokens, metrics.accepted_tokens);
}

// Two sessions, one with proposals and one without: whatever happens between two tokens, both hold the same.
TEST_F(Speculated, ASessionIsTheSameInTheMiddleOfAGeneration) {
  const testing_support::TemporaryFolder folder;
  const std::string one = (folder.path() / "one.kv").string(), two = (folder.path() / "two.kv").string();
  for (int n_tokens = 1; n_tokens < 40; n_tokens += 6) {
    Session sessions[2] = {model_.session(), model_.session()};
    std::vector<TokenId> ids[2];
    std::vector<float> kept[2];
    for (const int i : {0, 1}) {
      Session& session = sessions[i];
      GenerateOptions options{.max_tokens = 60, .ignore_eos = true};
      if (i == 1) options.speculate = Speculate::kLookup;
      Generation generation = model_.generate(session, prompt_, options);
      for (int t = 0; t < n_tokens; ++t) generation.next();
      Session fork = session.fork();
      session.save(i == 0 ? one : two);
      for (int t = 0; t < 3; ++t) generation.next();
      ids[i] = generation.ids();
      ids[i].insert(ids[i].end(), session.tokens().begin(), session.tokens().end());
      ids[i].insert(ids[i].end(), fork.tokens().begin(), fork.tokens().end());
      Session saved = model_.load_session(i == 0 ? one : two);
      ids[i].insert(ids[i].end(), saved.tokens().begin(), saved.tokens().end());
      const std::vector<TokenId> nodes = {5, 9, 7};
      const std::vector<int> parents = {-1, 0, -1};
      for (Session* each : {&session, &fork, &saved}) {
        const TreeLogits tree = each->append_tree(nodes, parents);
        ASSERT_EQ(tree.status(), AppendStatus::kDone);
        each->keep(1);
        each->rewind(each->length() - 1);
        ASSERT_EQ(each->append(nodes), AppendStatus::kDone);
        kept[i].insert(kept[i].end(), each->logits().begin(), each->logits().end());
      }
      EXPECT_THROW(generation.next(), Error);
    }
    EXPECT_EQ(ids[0], ids[1]) << n_tokens;
    EXPECT_EQ(kept[0], kept[1]) << n_tokens;
  }
}

TEST_F(Speculated, ThreadsThatGenerateTogetherGetTheSame) {
  std::vector<Result> alone(4), together(4);
  const auto run = [&](int i, bool speculates) {
    GenerateOptions options{.max_tokens = 40, .sampling = {.temperature = i % 2 == 0 ? 0.0 : 0.7, .seed = 5}, .ignore_eos = true};
    if (speculates && i < 2) options.speculate = Speculate::kLookup;
    if (speculates && i == 2) options.draft = same_;
    std::vector<TokenId> prompt(prompt_.begin(), prompt_.end() - i);
    Generation generation = model_.generate(prompt, options);
    return result_of(generation);
  };
  for (int i = 0; i < 4; ++i) alone[static_cast<size_t>(i)] = run(i, false);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&, i] { together[static_cast<size_t>(i)] = run(i, true); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
}

TEST_F(Speculated, ProgressAndCancellationIncludeThePromptOfTheDraft) {
  const std::vector<TokenId> prompt(900, prompt_.front());  // several runs of each model
  const auto n = static_cast<int>(prompt.size());
  std::vector<int> steps;
  GenerateOptions options{.max_tokens = 2, .draft = same_};
  options.progress = [&](int done, int total) {
    EXPECT_EQ(total, 2 * n);
    steps.push_back(done);
  };
  (void)model_.generate(prompt, options).text();
  EXPECT_TRUE(std::ranges::is_sorted(steps));
  EXPECT_THAT(steps, testing::Contains(n));
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back(), 2 * n);

  steps.clear();
  options.cancelled = [&] { return !steps.empty() && steps.back() > n; };  // while the draft model computes
  Generation generation = model_.generate(prompt, options);
  EXPECT_EQ(generation.text(), "");
  EXPECT_EQ(generation.finish(), Finish::kCancelled);
  EXPECT_LT(steps.back(), 2 * n);
}

TEST_F(Speculated, OptionsThatExcludeItAreErrors) {
  EXPECT_THAT([&] { run({.beams = 2, .speculate = Speculate::kLookup}); }, ThrowsMessage<Error>(HasSubstr("beams exclude each other")));
  EXPECT_THAT([&] { run({.draft = same_, .use_cache = false}); }, ThrowsMessage<Error>(HasSubstr("--no-cache")));
  EXPECT_THAT([&] { run({.speculate = static_cast<Speculate>(9)}); }, ThrowsMessage<Error>(HasSubstr("speculate is 9")));
  const auto form = [](const char* name) {
    return std::make_shared<const Model>(Model::load((testing_support::fixtures() / "forms" / name).string()));
  };
  EXPECT_THAT([&] { run({.draft = form("plain")}); }, ThrowsMessage<Error>(HasSubstr("same vocabulary")));
}

TEST_F(Speculated, ABackendThatIsNotExactIgnoresItWithAWarning) {
  std::vector<std::string> warnings;
  LoadOptions options{.backend = BackendChoice::kReference};
  options.log = [&](LogLevel level, std::string_view message) {
    if (level == LogLevel::kWarning) warnings.emplace_back(message);
  };
  const Model model = Model::load((testing_support::fixtures() / "forms" / "plain").string(), options);
  const std::vector<TokenId> prompt = {1, 2, 3};
  Generation generation = model.generate(prompt, {.max_tokens = 5, .speculate = Speculate::kLookup});
  generation.text();
  EXPECT_EQ(generation.metrics().proposed_tokens, 0);
  EXPECT_THAT(warnings, testing::ElementsAre(HasSubstr("speculation is off")));
}

}  // namespace
}  // namespace kvik
