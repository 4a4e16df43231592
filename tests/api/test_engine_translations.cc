// Translations of an engine: each has the same bits as with Model alone, no matter what else runs.
#include <atomic>
#include <fstream>
#include <gmock/gmock.h>
#include <thread>

#include "kvik/engine.h"
#include "support/paths.h"

namespace kvik {
namespace {

using Ids = std::vector<TokenId>;

std::string translator_path() { return (testing_support::source_root() / "models" / "en-zh").string(); }

const Model& shared_translator() {
  static const Model model = Model::load(translator_path());
  return model;
}

std::vector<std::string> sentences(size_t first, size_t n) {
  std::ifstream file(testing_support::fixtures() / "models-expected" / "en-zh" / "heldout.tsv");
  std::vector<std::string> texts;
  for (std::string line; texts.size() < first + n && std::getline(file, line);) texts.push_back(line.substr(0, line.find('\t')));
  texts.erase(texts.begin(), texts.begin() + static_cast<ptrdiff_t>(std::min(first, texts.size())));
  return texts;
}

struct WantedTranslation {
  std::vector<std::string> texts;
  TranslateOptions options;
};

// Lists of several lengths, greedy, drawn, searched with beams, with several hypotheses, stop texts and blank texts among them.
std::vector<WantedTranslation> many_translations(size_t n) {
  std::vector<WantedTranslation> wanted;
  for (size_t i = 0; i < n; ++i) {
    WantedTranslation one{sentences(i * 3 % 40, 1 + i % 4), {.beams = 1, .max_tokens = 8 + static_cast<int>(i % 5) * 8}};
    if (i % 3 == 1) one.options.beams = 2 + static_cast<int>(i % 4);
    if (i % 3 == 1) one.options.num_return_sequences = 2;
    if (i % 3 == 2) one.options.sampling = {.temperature = 1.1, .seed = i};
    if (i % 6 == 5) one.options.num_return_sequences = 3;
    if (i % 5 == 4) one.texts.insert(one.texts.begin(), " ");
    if (i % 7 == 6) one.options.stop = {"。", "的"};
    one.options.batch = 1 + static_cast<int>(i % 3);
    wanted.push_back(std::move(one));
  }
  return wanted;
}

void expect_same(const std::vector<Translation>& found, const std::vector<Translation>& expected, size_t which) {
  ASSERT_EQ(found.size(), expected.size()) << which;
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].text, expected[i].text) << which;
    EXPECT_EQ(found[i].source_ids, expected[i].source_ids) << which;
    EXPECT_EQ(found[i].finish, expected[i].finish) << which;
    ASSERT_EQ(found[i].hypotheses.size(), expected[i].hypotheses.size()) << which;
    for (size_t h = 0; h < found[i].hypotheses.size(); ++h) {
      EXPECT_EQ(found[i].hypotheses[h].ids, expected[i].hypotheses[h].ids) << which;
      EXPECT_EQ(found[i].hypotheses[h].score, expected[i].hypotheses[h].score) << which;
    }
  }
}

TEST(EngineTranslations, EveryTranslationIsTheSameAsAlone) {
  const std::vector<WantedTranslation> wanted = many_translations(18);
  Engine engine(shared_translator(), {.max_sequences = 7});
  std::vector<TranslationTask> tasks;
  for (const WantedTranslation& one : wanted) tasks.push_back(engine.translate(one.texts, one.options));
  for (size_t i = 0; i < wanted.size(); ++i)
    expect_same(tasks[i].get(), shared_translator().translate(std::span(wanted[i].texts), wanted[i].options), i);
}

// Some join while others run, and every third one leaves early.
TEST(EngineTranslations, TasksThatJoinAndLeaveDoNotChangeOthers) {
  const std::vector<WantedTranslation> wanted = many_translations(18);
  std::vector<std::vector<Translation>> expected;
  for (const WantedTranslation& one : wanted) expected.push_back(shared_translator().translate(std::span(one.texts), one.options));
  Engine engine(shared_translator(), {.max_sequences = 5});
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = t; i < wanted.size(); i += 3) {
        TranslationTask leaves = engine.translate(sentences(i, 6), {.beams = 4, .sampling = {.min_new_tokens = 60}});
        TranslationTask stays = engine.translate(wanted[i].texts, wanted[i].options);
        while (engine.load().running == 0 && !stays.is_done()) std::this_thread::yield();
        leaves.cancel();
        expect_same(stays.get(), expected[i], i);
        for (const Translation& one : leaves.get()) EXPECT_EQ(one.ids.empty(), one.finish == Finish::kCancelled);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(EngineTranslations, ATranslationWithoutMemoryWaitsAndHasTheSameBits) {
  const std::vector<WantedTranslation> wanted = many_translations(12);
  const Model model = Model::load(translator_path());
  const size_t page_bytes = model.cache_bytes_per_token() * 32;
  Engine engine(model, {.max_sequences = 16, .kv_bytes = page_bytes * 24});
  std::vector<TranslationTask> tasks;
  for (const WantedTranslation& one : wanted) tasks.push_back(engine.translate(one.texts, one.options));
  for (size_t i = 0; i < wanted.size(); ++i)
    expect_same(tasks[i].get(), shared_translator().translate(std::span(wanted[i].texts), wanted[i].options), i);
  EXPECT_GT(engine.load().preempted, 0);
}

TEST(EngineTranslations, ACancelledTaskFreesItsMemoryAndKeepsFinishedResults) {
  const Model model = Model::load(translator_path(), {.reuse_prefixes = false});
  Engine engine(model);
  std::vector<std::string> texts(40, "Good morning, my friend.");
  std::atomic<int> n_done = 0;
  TranslateOptions options{.beams = 3, .batch = 2};
  options.progress = [&](int done, int) { n_done = done; };
  TranslationTask task = engine.translate(texts, options);
  while (n_done < 3) std::this_thread::yield();
  task.cancel();
  const std::vector<Translation> found = task.get();
  EXPECT_TRUE(task.was_cancelled());
  EXPECT_FALSE(task.timed_out());
  EXPECT_EQ(model.cache_use().used_bytes, 0);
  EXPECT_EQ(engine.load().running, 0);
  const Translation alone = model.translate(texts.front(), {.beams = 3});
  for (const Translation& one : found) EXPECT_EQ(one.text, one.finish == Finish::kCancelled ? "" : alone.text);
  EXPECT_EQ(found.front().finish, Finish::kStop);
  EXPECT_EQ(found.back().finish, Finish::kCancelled);
}

TEST(EngineTranslations, ATimeoutEndsATask) {
  Engine engine(shared_translator());
  TranslationTask task = engine.translate(sentences(0, 40), {.beams = 4}, {.timeout = std::chrono::milliseconds(1)});
  EXPECT_EQ(task.get().back().finish, Finish::kCancelled);
  EXPECT_TRUE(task.timed_out());
}

TEST(EngineTranslations, TheEndIsSignaledAndNothingBlocks) {
  Engine engine(shared_translator());
  std::atomic<bool> updated = false;
  TranslationTask task = engine.translate(sentences(0, 2), {}, {.on_update = [&] { updated = true; }});
  while (!updated) std::this_thread::yield();
  EXPECT_TRUE(task.is_done());
  EXPECT_FALSE(task.was_cancelled());
  EXPECT_EQ(task.get().size(), 2u);
  EXPECT_THROW(task.get(), Error);
}

TEST(EngineTranslations, AFullQueueIsAValue) {
  Engine engine(shared_translator(), {.max_sequences = 1, .max_queue = 2});
  std::vector<TranslationTask> tasks;
  bool full = false;
  for (int i = 0; i < 10 && !full; ++i) {
    std::optional<TranslationTask> task = engine.try_translate(sentences(0, 20), {.beams = 4});
    full = !task;
    if (task) tasks.push_back(std::move(*task));
  }
  EXPECT_TRUE(full);
  EXPECT_GE(tasks.size(), 2u);
}

// One user has filled the queue with long lists; another's sentence is next all the same.
TEST(EngineTranslations, AUserWithFewerRunningSourcesIsNext) {
  Engine engine(shared_translator(), {.max_sequences = 2});
  std::vector<TranslationTask> busy;
  for (int i = 0; i < 6; ++i) busy.push_back(engine.translate(sentences(0, 30), {.beams = 2}, {.user = "a"}));
  TranslationTask rare = engine.translate(sentences(0, 1), {.beams = 1}, {.user = "b"});
  rare.get();
  EXPECT_FALSE(busy.front().is_done());
}

TEST(EngineTranslations, ATaskWithoutWorkIsDoneAtOnce) {
  Engine engine(shared_translator());
  EXPECT_TRUE(engine.translate(std::vector<std::string>()).get().empty());
  EXPECT_EQ(engine.translate(std::vector<std::string>{" ", ""}).get().size(), 2u);
}

TEST(EngineTranslations, BadArgumentsAreReportedAtOnceAndFailuresDoNotAffectOthers) {
  Engine engine(shared_translator());
  EXPECT_THROW((void)engine.translate(std::vector<std::string>{"a"}, {.language = "klingon"}), Error);
  EXPECT_THROW((void)engine.translate(std::vector<Ids>{{1, -5}}), Error);
  EXPECT_THROW((void)engine.submit("Once upon a time"), Error);
  EXPECT_THROW((void)engine.submit(Ids{1}), Error);
  EXPECT_THROW((void)engine.embed(std::vector<std::string>{"a"}), Error);
  EXPECT_THROW((void)engine.transcribe(Samples{{0.5f}, 16000}), Error);
  TranslationTask good = engine.translate(sentences(0, 3), {.beams = 2});
  TranslationTask bad = engine.translate(std::vector<Ids>{{1, 1 << 20}});  // the encoder's own error
  EXPECT_THROW(bad.get(), Error);
  expect_same(good.get(), shared_translator().translate(sentences(0, 3), {.beams = 2}), 0);
}

TEST(EngineTranslations, DestroyingTheEngineEndsItsTasks) {
  std::optional<TranslationTask> task;
  {
    Engine engine(shared_translator());
    task = engine.translate(sentences(0, 60), {.beams = 4});
  }
  EXPECT_TRUE(task->was_cancelled());
  EXPECT_EQ(task->get().size(), 60u);
}

}  // namespace
}  // namespace kvik
