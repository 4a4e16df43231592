// Continuous batching: every stream gets the same text as alone, no matter which others join, leave, wait or fail.
#include <algorithm>
#include <condition_variable>
#include <gmock/gmock.h>
#include <mutex>
#include <thread>

#include "kvik/engine.h"
#include "support/paths.h"

namespace kvik {
namespace {

using testing::IsEmpty;

const Model& stories() {
  static const Model model = Model::load((testing_support::source_root() / "models" / "fable").string());
  return model;
}

struct Wanted {
  std::string prompt;
  GenerateOptions options;
};

// Prompts of many lengths, greedy and drawn, with stop texts, beams and speculation.
std::vector<Wanted> many_requests(int n) {
  const std::string story = "Once upon a time, in a deep forest, there lived an old wolf who had never seen the sea. ";
  std::vector<Wanted> wanted;
  for (int i = 0; i < n; ++i) {
    Wanted one{story.substr(0, 8 + static_cast<size_t>(i * 7 % 60)), {.max_tokens = 5 + i * 5 % 30}};
    if (i % 5 == 4) one.prompt = story + story + story + std::to_string(i) + story;
    one.options.sampling = {.temperature = i % 3 == 0 ? 0.0 : 0.9, .seed = static_cast<uint64_t>(i)};
    if (i % 7 == 3) one.options.stop = {"the"};
    if (i % 11 == 5) one.options.speculate = Speculate::kLookup;
    if (i % 13 == 6) one.options.beams = 3, one.options.sampling = {};
    wanted.push_back(std::move(one));
  }
  return wanted;
}

std::vector<std::string> alone(const std::vector<Wanted>& wanted) {
  std::vector<std::string> texts;
  for (const Wanted& one : wanted) texts.push_back(stories().generate(one.prompt, one.options).text());
  return texts;
}

std::vector<std::string> together(Engine& engine, const std::vector<Wanted>& wanted) {
  std::vector<Stream> streams;
  for (const Wanted& one : wanted) streams.push_back(engine.submit(one.prompt, one.options));
  std::vector<std::string> texts;
  for (Stream& stream : streams) texts.push_back(stream.text());
  return texts;
}

TEST(Engine, EveryStreamGetsTheSameTextAsAlone) {
  const std::vector<Wanted> wanted = many_requests(40);
  Engine engine(stories(), {.max_sequences = 16});
  EXPECT_EQ(together(engine, wanted), alone(wanted));
}

TEST(Engine, TextIsReadAsItIsGenerated) {
  Engine engine(stories());
  Stream stream = engine.submit("Once upon a time", {.max_tokens = 20, .sampling = {.temperature = 0}});
  std::string text;
  for (const std::string_view piece : stream) {
    EXPECT_FALSE(piece.empty());
    text += piece;
  }
  EXPECT_EQ(text, stories().generate("Once upon a time", {.max_tokens = 20, .sampling = {.temperature = 0}}).text());
  EXPECT_EQ(stream.ids().size(), 20);
  EXPECT_EQ(stream.finish(), Finish::kLength);
  EXPECT_EQ(stream.metrics().generated_tokens, 20);
  EXPECT_GT(stream.metrics().prompt_tokens + stream.metrics().reused_tokens, 0);
  EXPECT_EQ(stream.next(), std::nullopt);
}

// The results of poll() until the end; it is called only after on_update.
struct Polled {
  std::string text;
  std::vector<GeneratedToken> tokens;
  StreamUpdate last;
};
Polled poll_to_the_end(Engine& engine, const std::string& prompt, const GenerateOptions& options, RequestOptions request = {}) {
  std::mutex mutex;
  std::condition_variable changed;
  int n_updates = 0;
  request.on_update = [&] {
    const std::lock_guard lock(mutex);
    ++n_updates;
    changed.notify_all();
  };
  Polled polled;
  Stream stream = engine.submit(prompt, options, request);
  for (int n_seen = 0; !polled.last.finish;) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return n_updates > n_seen; });
    n_seen = n_updates;
    lock.unlock();
    polled.last = stream.poll();
    polled.text += polled.last.text;
    polled.tokens.insert(polled.tokens.end(), polled.last.tokens.begin(), polled.last.tokens.end());
  }
  return polled;
}

TEST(Engine, UpdatesAreSignaledAndPolledWithoutBlocking) {
  Engine engine(stories());
  const GenerateOptions options{.max_tokens = 30, .sampling = {.temperature = 0.9, .seed = 4}};
  const Polled polled = poll_to_the_end(engine, "Once upon a time", options);
  Generation alone = stories().generate("Once upon a time", options);
  EXPECT_EQ(polled.text, alone.text());
  std::vector<TokenId> ids;
  for (const GeneratedToken& token : polled.tokens) ids.push_back(token.id);
  EXPECT_EQ(ids, alone.ids());
  EXPECT_EQ(polled.last.finish, alone.finish());
  EXPECT_EQ(polled.last.error, nullptr);
}

TEST(Engine, AFailureIsPolledToo) {
  Engine engine(stories());
  std::vector<TokenId> all(static_cast<size_t>(stories().vocab_size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<TokenId>(i);
  EXPECT_NE(poll_to_the_end(engine, "Once", {.max_tokens = 12, .sampling = {.suppress_tokens = all}}).last.error, nullptr);
}

TEST(Engine, LogprobsAreThoseOfScore) {
  Engine engine(stories());
  const std::string prompt = "Once upon a time";
  const Polled polled = poll_to_the_end(engine, prompt, {.max_tokens = 12, .sampling = {.temperature = 0.9, .seed = 5}, .logprobs = 4});
  std::vector<TokenId> ids = stories().tokenize(prompt);
  const size_t n_prompt = ids.size();
  for (const GeneratedToken& token : polled.tokens) ids.push_back(token.id);
  const std::vector<double> expected = stories().score(ids).logprobs;
  ASSERT_EQ(expected.size(), n_prompt + 11);
  for (size_t i = 0; i < polled.tokens.size(); ++i) {
    const GeneratedToken& token = polled.tokens[i];
    EXPECT_EQ(token.logprob, expected[n_prompt - 1 + i]);
    ASSERT_EQ(token.top.size(), 4);
    EXPECT_TRUE(std::ranges::is_sorted(token.top, std::greater<>(), &TokenLogprob::logprob));
    EXPECT_GE(token.top.front().logprob, token.logprob);
  }
  EXPECT_THROW((void)engine.submit(prompt, {.logprobs = -1}), Error);
  EXPECT_THROW((void)engine.submit(prompt, {.beams = 2, .logprobs = 1}), Error);
}

TEST(Engine, ATimeoutEndsAStream) {
  Engine engine(stories());
  const GenerateOptions endless{.max_tokens = 400, .ignore_eos = true};
  const Polled late = poll_to_the_end(engine, "Once upon a time", endless, {.timeout = std::chrono::milliseconds(1)});
  EXPECT_EQ(late.last.finish, Finish::kCancelled);
  EXPECT_TRUE(late.last.timed_out);
  EXPECT_LT(late.tokens.size(), 400);
  EXPECT_FALSE(poll_to_the_end(engine, "Once", {.max_tokens = 3}, {.timeout = std::chrono::hours(1)}).last.timed_out);
}

// One user has filled the queue; another's first request is next all the same.
TEST(Engine, AUserWithFewerRunningStreamsJoinsFirst) {
  std::mutex mutex;  // the engine's thread calls until the engine is gone
  std::vector<std::string> ended;
  {
    Engine engine(stories(), {.max_sequences = 2});
    std::vector<Stream> streams;
    const auto submit = [&](const std::string& name, const std::string& user, int n_tokens) {
      const auto on_update = [&, name, last = std::make_shared<int>(0), n_tokens] {
        if (++*last <= n_tokens) return;  // one for each token, and one for the end
        const std::lock_guard lock(mutex);
        ended.push_back(name);
      };
      streams.push_back(engine.submit("Once", {.max_tokens = n_tokens, .ignore_eos = true}, {.user = user, .on_update = on_update}));
    };
    for (int i = 0; i < 8; ++i) submit("busy", "a", 200);
    submit("rare", "b", 2);
    for (Stream& stream : streams) stream.text();
  }
  ASSERT_EQ(ended.size(), 9);
  EXPECT_LE(std::ranges::find(ended, "rare") - ended.begin(), 2);
}

TEST(Engine, AStreamWithTheSamePromptReusesIt) {
  Engine engine(Model::load((testing_support::source_root() / "models" / "fable").string()));
  std::string prompt;
  for (int i = 0; i < 20; ++i) prompt += "There was a wolf, and a bear, and a fox. ";
  Stream first = engine.submit(prompt, {.max_tokens = 3});
  Stream second = engine.submit(prompt, {.max_tokens = 3}, {.same_prompt = &first});
  EXPECT_EQ(first.text(), second.text());
  EXPECT_EQ(first.metrics().reused_tokens, 0);
  EXPECT_GT(second.metrics().reused_tokens, second.metrics().prompt_tokens);
}

TEST(Engine, ThreadsMaySubmitAtOnce) {
  const std::vector<Wanted> wanted = many_requests(12);
  const std::vector<std::string> expected = alone(wanted);
  Engine engine(stories(), {.max_sequences = 5});
  std::vector<std::string> texts(wanted.size());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = t; i < wanted.size(); i += 4) texts[i] = engine.submit(wanted[i].prompt, wanted[i].options).text();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(texts, expected);
}

// The limit holds only some of their caches, so the youngest is preempted and computed again.
TEST(Engine, APreemptedStreamContinuesWithTheSameText) {
  const std::vector<Wanted> wanted = many_requests(24);
  const std::vector<std::string> expected = alone(wanted);
  const Model model = Model::load((testing_support::source_root() / "models" / "fable").string());
  const size_t page_bytes = model.cache_bytes_per_token() * 32;
  Engine engine(model, {.max_sequences = 24, .kv_bytes = page_bytes * 20});
  EXPECT_EQ(together(engine, wanted), expected);
  EXPECT_GT(engine.load().preempted, 0);
  EXPECT_LE(model.cache_use().used_bytes, page_bytes * 20);
}

TEST(Engine, AStreamThatNeverFitsFailsAlone) {
  const Model model = Model::load((testing_support::source_root() / "models" / "fable").string());
  Engine engine(model, {.kv_bytes = model.cache_bytes_per_token() * 32 * 3});
  std::string long_prompt;
  for (int i = 0; i < 40; ++i) long_prompt += "There was a wolf. ";
  Stream large = engine.submit(long_prompt, {.max_tokens = 5});
  Stream small = engine.submit("Once upon a time", {.max_tokens = 5, .sampling = {.temperature = 0}});
  EXPECT_THROW(large.text(), Error);
  EXPECT_EQ(small.text(), stories().generate("Once upon a time", {.max_tokens = 5, .sampling = {.temperature = 0}}).text());
}

TEST(Engine, ACancelledStreamFreesItsCache) {
  const Model model = Model::load((testing_support::source_root() / "models" / "fable").string(), {.reuse_prefixes = false});
  Engine engine(model, {.max_sequences = 4});
  std::vector<Stream> streams;
  for (int i = 0; i < 6; ++i) streams.push_back(engine.submit("Once upon a time", {.max_tokens = 400, .ignore_eos = true}));
  ASSERT_TRUE(streams[0].next());
  for (Stream& stream : streams) stream.cancel();
  for (Stream& stream : streams) stream.text();
  for (Stream& stream : streams) EXPECT_EQ(stream.finish(), Finish::kCancelled);
  EXPECT_EQ(model.cache_use().used_bytes, 0);
  while (engine.load().running > 0) std::this_thread::yield();  // updated after the streams were notified
  Stream next = engine.submit("Once upon a time", {.max_tokens = 3, .ignore_eos = true});
  next.text();
  EXPECT_EQ(next.ids().size(), 3);
}

TEST(Engine, AFullQueueIsAValue) {
  Engine engine(stories(), {.max_sequences = 1, .max_queue = 2});
  const std::vector<TokenId> prompt = stories().tokenize("Once upon a time");
  std::vector<Stream> streams;
  bool full = false;
  for (int i = 0; i < 10 && !full; ++i) {
    std::optional<Stream> stream = engine.try_submit(prompt, {.max_tokens = 300, .ignore_eos = true});
    full = !stream;
    if (stream) streams.push_back(std::move(*stream));
  }
  EXPECT_TRUE(full);
  EXPECT_GE(streams.size(), 2);
}

TEST(Engine, AStreamThatCannotChooseATokenDoesNotAffectOthers) {
  Engine engine(stories());
  std::vector<TokenId> all(static_cast<size_t>(stories().vocab_size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<TokenId>(i);
  const GenerateOptions greedy{.max_tokens = 12, .sampling = {.temperature = 0}};
  Stream good = engine.submit("Once upon a time", greedy);
  Stream bad = engine.submit("Once upon a time", {.max_tokens = 12, .sampling = {.temperature = 0, .suppress_tokens = all}});
  EXPECT_THROW(bad.text(), Error);
  EXPECT_EQ(good.text(), stories().generate("Once upon a time", greedy).text());
}

TEST(Engine, BadOptionsAreReportedBySubmit) {
  EXPECT_THROW(Engine(stories(), {.max_sequences = 0}), Error);
  Engine engine(stories());
  EXPECT_THROW((void)engine.submit(std::vector<TokenId>{}), Error);
  EXPECT_THROW((void)engine.submit("Once", {.sampling = {.top_p = 7.0}}), Error);
  EXPECT_THROW(engine.submit(std::vector<TokenId>{-5}).text(), Error);
  EXPECT_THAT(engine.submit("Once", {.max_tokens = 0}).text(), IsEmpty());
}

TEST(Engine, DestroyingItEndsItsStreams) {
  std::optional<Stream> stream;
  {
    Engine engine(stories());
    stream = engine.submit("Once upon a time", {.max_tokens = 400, .ignore_eos = true});
    ASSERT_TRUE(stream->next());
  }
  stream->text();
  EXPECT_EQ(stream->finish(), Finish::kCancelled);
}

}  // namespace
}  // namespace kvik
