#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <thread>

#include "base/json.h"
#include "base/mapped_file.h"
#include "kvik/kvik.h"
#include "support/paths.h"

namespace kvik {
namespace {

std::string fable_folder() { return (testing_support::source_root() / "models" / "fable").string(); }

Json fable_answers() { return read_json_file(testing_support::fixtures() / "models-expected" / "fable" / "expected.json"); }

// The evaluator needs nothing but this tree; with ONNX Runtime the same tests run through the command line's own.
Model fable() {
  static const Model kModel = Model::load(fable_folder(), {.backend = BackendChoice::kReference});
  return kModel;
}

TEST(Model, GeneratesTheIdsOfTheReferenceFramework) {
  const Json known = fable_answers()["cases"][0];
  Generation generation = fable().generate(known["prompt"].get<std::string>(), {.max_tokens = 24});
  std::string text;
  for (const std::string_view piece : generation) text += piece;
  const auto expected = known["greedy_ids"].get<std::vector<TokenId>>();
  EXPECT_EQ(generation.prompt_ids(), known["prompt_ids"].get<std::vector<TokenId>>());
  EXPECT_EQ(generation.ids(), std::vector<TokenId>(expected.begin(), expected.begin() + 24));
  EXPECT_EQ(text, fable().detokenize(generation.ids()));
  EXPECT_EQ(generation.finish(), Finish::kLength);
  EXPECT_EQ(generation.metrics().generated_tokens, 24);
}

TEST(Model, TheSameSeedGivesTheSameText) {
  const auto tell = [](uint64_t seed) {
    return fable().generate("The king", {.max_tokens = 12, .sampling = {.temperature = 1.0, .seed = seed}}).text();
  };
  EXPECT_EQ(tell(7), tell(7));
  EXPECT_NE(tell(7), tell(8));
}

TEST(Model, WithoutTheCacheTheIdsAreTheSame) {
  Generation cached = fable().generate("The king", {.max_tokens = 8});
  Generation uncached = fable().generate("The king", {.max_tokens = 8, .use_cache = false});
  EXPECT_EQ(cached.text(), uncached.text());
  EXPECT_EQ(cached.ids(), uncached.ids());
}

TEST(Model, AStopTextEndsTheTextAndIsNotPartOfIt) {
  const std::string whole = fable().generate("Once upon a time", {.max_tokens = 24}).text();
  const std::string stop = whole.substr(whole.size() / 2, 3);
  Generation generation = fable().generate("Once upon a time", {.max_tokens = 24, .stop = {stop}});
  const std::string text = generation.text();
  EXPECT_EQ(text, whole.substr(0, whole.find(stop)));
  EXPECT_EQ(generation.finish(), Finish::kStop);
}

TEST(Model, AStopIdEndsItAndIsAmongTheIds) {
  Generation whole = fable().generate("Once upon a time", {.max_tokens = 10});
  whole.text();
  Generation generation = fable().generate("Once upon a time", {.max_tokens = 10, .stop_ids = {whole.ids()[4]}});
  generation.text();
  EXPECT_EQ(generation.finish(), Finish::kStop);
  EXPECT_EQ(generation.ids().back(), whole.ids()[4]);
  EXPECT_LE(generation.ids().size(), 5u);
}

TEST(Model, CancellationIsPolledBetweenSteps) {
  int n_asked = 0;
  Generation generation = fable().generate("Once upon a time", {.max_tokens = 100, .cancelled = [&] { return ++n_asked > 5; }});
  generation.text();
  EXPECT_EQ(generation.finish(), Finish::kCancelled);
  EXPECT_LT(generation.ids().size(), 6u);
}

TEST(Model, APromptThatIsEmptyTooLongOrOutsideTheVocabularyIsAnError) {
  const std::vector<TokenId> none, outside = {1, 1 << 20}, much(2000, 5);
  EXPECT_THAT([&] { fable().generate(none); }, testing::ThrowsMessage<Error>(testing::HasSubstr("empty")));
  EXPECT_THAT([&] { fable().generate(outside); }, testing::ThrowsMessage<Error>(testing::HasSubstr("outside the vocabulary of 4096")));
  EXPECT_THAT([&] { fable().generate(much); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("2000 tokens; the context has room for 1024")));
}

TEST(Model, OptionsOutOfRangeAreErrors) {
  EXPECT_THROW(fable().generate("a", {.sampling = {.temperature = -1.0}}), Error);
  EXPECT_THROW(fable().generate("a", {.sampling = {.top_p = 2.0}}), Error);
  EXPECT_THROW(fable().generate("a", {.max_tokens = -3}), Error);
  EXPECT_THROW(Model::load(fable_folder(), {.threads = -1}), Error);
  EXPECT_THROW(Model::load("no-such-model"), Error);
}

TEST(Model, EnumValuesOutOfRangeAreErrors) {
  const auto expect_error = [](const char* name, const LoadOptions& options) {
    EXPECT_THAT([&] { Model::load(fable_folder(), options); }, testing::ThrowsMessage<Error>(testing::HasSubstr(name)));
  };
  expect_error("backend is 77", {.backend = static_cast<BackendChoice>(77)});
  expect_error("device is -1", {.device = static_cast<Device>(-1)});
  expect_error("weights is 5", {.weights = static_cast<Weights>(5)});
  expect_error("kv is 4", {.kv = static_cast<KvStorage>(4)});
  EXPECT_THAT([] { fable().generate("a", {.beams = 2, .early_stopping = static_cast<EarlyStopping>(3)}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("early_stopping is 3")));
}

TEST(Model, BeamsOfADecoderGiveOneTextAtTheEnd) {
  Generation generation = fable().generate("The king", {.max_tokens = 6, .beams = 3});
  std::vector<std::string> pieces;
  for (const std::string_view piece : generation) pieces.emplace_back(piece);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces.front(), fable().detokenize(generation.ids()));
  EXPECT_EQ(generation.ids().size(), 6u);
  Session session = fable().session();
  ASSERT_EQ(session.append(fable().tokenize("The")), AppendStatus::kDone);
  Generation continued = fable().generate(session, fable().tokenize("The king"), {.max_tokens = 6, .beams = 3});
  EXPECT_EQ(continued.text(), pieces.front());
  EXPECT_EQ(session.tokens().size(), continued.prompt_ids().size());
  EXPECT_THAT([] { fable().generate("a", {.beams = 2, .use_cache = false}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("exclude each other")));
}

TEST(Model, ScoreIsTheLogProbabilityOfEachTokenGivenThoseBefore) {
  const std::vector<TokenId> ids = fable().tokenize("The old king sat down.");
  const Score score = fable().score(ids);
  ASSERT_EQ(score.logprobs.size(), ids.size() - 1);
  Session session = fable().session();
  double sum = 0;
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    ASSERT_EQ(session.append(ids[i]), AppendStatus::kDone);
    double total = 0;
    for (const float logit : session.logits()) total += std::exp(static_cast<double>(logit));
    const double expected = session.logits()[static_cast<size_t>(ids[i + 1])] - std::log(total);
    EXPECT_NEAR(score.logprobs[i], expected, 1e-3) << i;
    sum += expected;
  }
  EXPECT_NEAR(score.sum_logprob, sum, 1e-2);
  EXPECT_NEAR(score.perplexity(), std::exp(-sum / static_cast<double>(ids.size() - 1)), 1e-1);
  EXPECT_EQ(fable().score(ids, {.cancelled = [] { return true; }}).finish, Finish::kCancelled);
  EXPECT_THROW(fable().score(std::vector<TokenId>{1, -5}), Error);
}

TEST(Generation, OutlivesItsSessionAndItsModel) {
  const auto begin = [] {
    const Model model = Model::load(fable_folder(), {.backend = BackendChoice::kNative});
    Session session = model.session();
    return model.generate(session, model.tokenize("The king"), {.max_tokens = 6});
  };
  Generation generation = begin();
  EXPECT_EQ(generation.text(), Model::load(fable_folder()).generate("The king", {.max_tokens = 6}).text());
}

TEST(Generation, OfASessionThatWasChangedIsAnError) {
  Session session = fable().session();
  Generation generation = fable().generate(session, fable().tokenize("The king"), {.max_tokens = 6});
  ASSERT_TRUE(generation.next().has_value());
  ASSERT_EQ(session.append(5), AppendStatus::kDone);
  EXPECT_THAT([&] { generation.next(); }, testing::ThrowsMessage<Error>(testing::HasSubstr("the session was changed")));
  EXPECT_EQ(session.tokens().back(), 5);
}

TEST(Session, HasTheSameLogitsWhileTheNumberOfThreadsIsChosen) {
  const Model choosing = Model::load(fable_folder(), {.backend = BackendChoice::kNative, .weights = Weights::kQ8}),
              alone = Model::load(fable_folder(), {.backend = BackendChoice::kNative, .weights = Weights::kQ8, .threads = 1});
  Session a = choosing.session(), b = alone.session();
  for (int i = 0; i < 150; ++i) {  // with some trials
    const TokenId token = static_cast<TokenId>(3 + i * 7 % 200);
    ASSERT_EQ(a.append({&token, 1}), AppendStatus::kDone);
    ASSERT_EQ(b.append({&token, 1}), AppendStatus::kDone);
    ASSERT_TRUE(std::ranges::equal(a.logits(), b.logits())) << i;
  }
}

TEST(Session, MetricsCountSingleTokensAsDecoding) {
  Session session = fable().session();
  ASSERT_EQ(session.append(fable().tokenize("Once upon a time")), AppendStatus::kDone);
  const int n_prompt = session.length();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(session.append(5), AppendStatus::kDone);
  EXPECT_EQ(session.metrics().prompt_tokens, n_prompt);
  EXPECT_EQ(session.metrics().decode_tokens, 3);
}

TEST(Session, AMovedFromSessionCannotTakePartInAStep) {
  Session session = fable().session(), moved = fable().session(), taken = std::move(moved);
  Session* const sessions[] = {&session, &moved};
  Session* const missing[] = {&session, nullptr};
  Session* const twice[] = {&session, &session};
  const TokenId tokens[] = {1, 2};
  EXPECT_THAT([&] { (void)fable().step(sessions, tokens); }, testing::ThrowsMessage<Error>(testing::HasSubstr("session 1 of a step")));
  EXPECT_THAT([&] { (void)fable().step(missing, tokens); }, testing::ThrowsMessage<Error>(testing::HasSubstr("session 1 of a step")));
  EXPECT_THAT([&] { (void)fable().step(twice, tokens); }, testing::ThrowsMessage<Error>(testing::HasSubstr("twice")));
  EXPECT_EQ(session.length(), 0);
}

TEST(Model, NumbersOfAnyLengthReachItsChatTemplate) {
  const testing_support::TemporaryFolder folder;
  for (const char* name : {"model.onnx", "config.json"}) {
    std::filesystem::copy(testing_support::fixtures() / "forms" / "plain" / name, folder.path() / name);
  }
  folder.write("chat_template.jinja", "{% for m in messages %}{{ m | tojson }}{% endfor %}{{ add_generation_prompt }}");
  const Model model = Model::load(folder.path().string(), {.backend = BackendChoice::kReference});
  const std::string message = R"({"role": "user", "content": 123456789012345678901234567890})";
  EXPECT_EQ(model.apply_chat_template("[" + message + "]"), message + "True");
  EXPECT_THROW(model.apply_chat_template("[{"), Error);
}

TEST(Session, AppendsRewindsAndForksIndependently) {
  Session session = fable().session();
  const std::vector<TokenId> prompt = fable().tokenize("Once upon a time");
  ASSERT_EQ(session.append(prompt), AppendStatus::kDone);
  Session branch = session.fork();
  const TokenId next = branch.sample({.temperature = 0.0});
  ASSERT_EQ(branch.append(next), AppendStatus::kDone);
  EXPECT_EQ(branch.length(), session.length() + 1);
  EXPECT_EQ(session.sample({.temperature = 0.0}), next);
  branch.rewind(session.length());
  EXPECT_EQ(branch.sample({.temperature = 0.0}), next);
  session.reset();
  EXPECT_EQ(session.length(), 0);
}

TEST(Session, ASecondTurnComputesOnlyNewTokens) {
  Session session = fable().session();
  std::vector<TokenId> prompt = fable().tokenize("Once upon a time");
  Generation first = fable().generate(session, prompt, {.max_tokens = 4});
  first.text();
  prompt.insert(prompt.end(), first.ids().begin(), first.ids().end());
  prompt.push_back(5);
  Generation second = fable().generate(session, prompt, {.max_tokens = 2});
  second.text();
  EXPECT_EQ(second.metrics().prompt_tokens, 2);  // the last token of the first turn, which was not computed yet, and the new one
  EXPECT_EQ(second.metrics().reused_tokens, static_cast<int>(prompt.size()) - 2);
}

TEST(Session, SessionsInOneStepGetTheSameBitsAsAlone) {
  const std::vector<TokenId> prompt = fable().tokenize("The old woman");
  std::vector<Session> sessions;
  for (int i = 0; i < 3; ++i) {
    sessions.push_back(fable().session());
    ASSERT_EQ(sessions.back().append(std::span(prompt).first(static_cast<size_t>(i) + 1)), AppendStatus::kDone);
  }
  const std::vector<TokenId> tokens = {10, 20, 30};
  std::vector<Session> alone;
  for (const Session& session : sessions) alone.push_back(session.fork());
  std::vector<Session*> pointers;
  for (Session& session : sessions) pointers.push_back(&session);
  ASSERT_EQ(fable().step(pointers, tokens), AppendStatus::kDone);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(alone[i].append(tokens[i]), AppendStatus::kDone);
    const std::vector<float> row(alone[i].logits().begin(), alone[i].logits().end());
    EXPECT_THAT(sessions[i].logits(), testing::Pointwise(testing::FloatNear(1e-3f), row)) << i;
  }
}

TEST(Session, ThreadsShareOneModel) {
  const std::string expected = fable().generate("The king", {.max_tokens = 6}).text();
  std::vector<std::string> texts(3);
  std::vector<std::thread> threads;
  for (std::string& text : texts) threads.emplace_back([&text] { text = fable().generate("The king", {.max_tokens = 6}).text(); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, expected);
}

}  // namespace
}  // namespace kvik
