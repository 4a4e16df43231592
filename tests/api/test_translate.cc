#include <fstream>
#include <gmock/gmock.h>
#include <thread>

#include "api/state.h"
#include "base/json.h"
#include "engine/targets.h"
#include "support/paths.h"

namespace kvik {
namespace {

using Ids = std::vector<TokenId>;

std::filesystem::path expected_folder() { return testing_support::fixtures() / "models-expected" / "en-zh"; }

Model translator() {
  static const Model kModel = Model::load((testing_support::source_root() / "models" / "en-zh").string());
  return kModel;
}

Model translator_without_text() {
  static const Model kModel =
      Model::load((testing_support::fixtures() / "forms" / "translator-pair").string(), {.backend = BackendChoice::kReference});
  return kModel;
}

std::vector<std::string> first_texts(size_t n) {
  std::ifstream file(expected_folder() / "heldout.tsv");
  std::vector<std::string> texts;
  for (std::string line; texts.size() < n && std::getline(file, line);) texts.push_back(line.substr(0, line.find('\t')));
  return texts;
}

std::vector<Json> first_answers(size_t n) {
  std::ifstream file(expected_folder() / "expected.jsonl");
  std::vector<Json> answers;
  for (std::string line; answers.size() < n && std::getline(file, line);) answers.push_back(Json::parse(line));
  return answers;
}

std::vector<Ids> ids_of(const std::vector<Translation>& translations) {
  std::vector<Ids> ids;
  for (const Translation& translation : translations) ids.push_back(translation.ids);
  return ids;
}

TEST(Translate, GivesTheIdsOfTheReferenceFrameworkInOrder) {
  const std::vector<Translation> greedy = translator().translate(first_texts(20), {.beams = 1, .max_tokens = 64});
  const std::vector<Translation> searched = translator().translate(first_texts(20), {.beams = 4, .max_tokens = 64, .batch = 7});
  const std::vector<Json> known = first_answers(20);
  for (size_t i = 0; i < known.size(); ++i) {
    EXPECT_EQ(greedy[i].source_ids, known[i]["source_ids"].get<Ids>()) << i;
    EXPECT_EQ(greedy[i].ids, known[i]["greedy_ids"].get<Ids>()) << i;
    EXPECT_EQ(searched[i].ids, known[i]["beam4_ids"].get<Ids>()) << i;
    EXPECT_EQ(searched[i].text, translator().detokenize(searched[i].ids)) << i;
    EXPECT_EQ(searched[i].finish, Finish::kStop) << i;
  }
}

TEST(Translate, ATextInABatchIsTranslatedAsAlone) {
  const std::vector<std::string> texts = first_texts(10);
  const std::vector<Translation> together = translator().translate(texts, {.beams = 3, .num_return_sequences = 2});
  for (size_t i = 0; i < texts.size(); ++i) {
    const Translation alone = translator().translate(texts[i], {.beams = 3, .num_return_sequences = 2});
    ASSERT_EQ(alone.hypotheses.size(), 2u);
    for (size_t h = 0; h < 2; ++h) {
      EXPECT_EQ(alone.hypotheses[h].ids, together[i].hypotheses[h].ids) << i;
      EXPECT_EQ(alone.hypotheses[h].score, together[i].hypotheses[h].score) << i;
    }
    EXPECT_EQ(alone.text, alone.hypotheses[0].text);
    EXPECT_GE(alone.hypotheses[0].score, alone.hypotheses[1].score);
  }
}

TEST(Translate, ScoresAreComputedIfTheyAreWantedOrSortTheResults) {
  const std::vector<std::string> texts = {"Good morning.", "The old man lived by the sea."};
  const std::vector<Translation> scored = translator().translate(texts, {.beams = 1}), plain = translator().translate(texts, {.beams = 1, .scores = false});
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(plain[i].ids, scored[i].ids);
    EXPECT_LT(scored[i].score, 0.0f);
    EXPECT_EQ(plain[i].score, 0.0f);
  }
  const Translation drawn =
      translator().translate(texts.front(), {.num_return_sequences = 3, .sampling = {.temperature = 1.0, .seed = 1}, .scores = false});
  EXPECT_GE(drawn.hypotheses[0].score, drawn.hypotheses[2].score);
  EXPECT_LT(drawn.hypotheses[0].score, 0.0f);
}

TEST(Translate, SourceIdsAreTranslatedAsTheirText) {
  const std::vector<std::string> texts = first_texts(3);
  std::vector<Ids> sources;
  for (const std::string& text : texts) sources.push_back(translator().tokenize(text));
  EXPECT_EQ(ids_of(translator().translate(sources)), ids_of(translator().translate(texts)));
  EXPECT_EQ(translator().translate(sources[1]).text, translator().translate(texts[1]).text);
  EXPECT_EQ(ids_of(translator().translate({texts[0], texts[1]})), ids_of(translator().translate(std::span(texts).first(2))));
}

TEST(Translate, IsWhatTheEngineSearchesFor) {
  const std::vector<Ids> sources = {{45, 34, 34, 40}, {7}, {12, 13, 14}};
  const Model::State& state = *translator_without_text().state();
  engine::TargetOptions options;
  options.start = {*state.config.decoder_start};
  options.beams = {.num_beams = 3, .max_length = 9, .eos_token_id = state.config.eos};
  const auto sampler = std::make_shared<const sample::Sampler>(
      state.config.sampling, sample::TokenRules{static_cast<size_t>(state.traits().vocab), state.config.eos, {}});
  std::vector<Ids> expected;
  for (const engine::FoundTargets& found : find_targets(state.decoder, sampler, engine::encode_tokens(state.backend(), sources), options))
    expected.push_back(found.targets.front().ids);
  const std::vector<Translation> found = translator_without_text().translate(sources, {.beams = 3, .max_tokens = 8});
  EXPECT_EQ(ids_of(found), expected);
  EXPECT_EQ(found.front().text, "");
}

TEST(Translate, WhatASeedDrawsDoesNotDependOnTheBatch) {
  const auto draw = [](uint64_t seed, int batch) {
    return ids_of(
        translator().translate(first_texts(6), {.max_tokens = 16, .sampling = {.temperature = 1.2, .seed = seed}, .batch = batch}));
  };
  EXPECT_EQ(draw(7, 1), draw(7, 4));
  EXPECT_NE(draw(7, 1), draw(8, 1));
}

TEST(Translate, BlankTextsStayBlankInTheirPlace) {
  const std::vector<Translation> found = translator().translate({"", "Good morning.", " \t"});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].text + found[2].text, "");
  EXPECT_TRUE(found[0].hypotheses.empty());
  EXPECT_EQ(found[1].text, translator().translate("Good morning.").text);
  EXPECT_TRUE(translator().translate(std::vector<std::string>()).empty());
}

TEST(Translate, ReportsEachTextInOrderAsSoonAsThoseBeforeItAreKnown) {
  std::vector<size_t> places;
  std::vector<std::string> reported;
  int last = 0;
  TranslateOptions options{.batch = 2};
  options.on_translation = [&](size_t place, const Translation& one) {
    places.push_back(place);
    reported.push_back(one.text);
  };
  options.progress = [&](int done, int total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, 5);
    last = done;
  };
  const std::vector<Translation> found = translator().translate(first_texts(5), options);
  EXPECT_THAT(places, testing::ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(last, 5);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(reported[i], found[i].text);
}

TEST(Translate, CancellationKeepsWhatIsDone) {
  bool enough = false;
  TranslateOptions options{.batch = 1};
  options.progress = [&](int done, int) { enough = done == 2; };
  options.cancelled = [&] { return enough; };
  const std::vector<Translation> found = translator().translate({"I am here.", "Good morning.", "Good night, my friend."}, options);
  size_t n_cancelled = 0;
  for (const Translation& one : found) {
    n_cancelled += one.finish == Finish::kCancelled ? 1 : 0;
    EXPECT_EQ(one.ids.empty(), one.finish == Finish::kCancelled);
  }
  EXPECT_EQ(n_cancelled, 1u);
}

TEST(Translate, StopsAtStopIdsAndStopTexts) {
  const Translation whole = translator().translate("Good morning, my friend.", {.beams = 1});
  const Translation by_id = translator().translate("Good morning, my friend.", {.beams = 1, .stop_ids = {whole.ids[1]}});
  EXPECT_THAT(by_id.ids, testing::ElementsAre(whole.ids[0], whole.ids[1]));
  const std::string stop = translator().detokenize(Ids{whole.ids[2]});
  const Translation by_text = translator().translate("Good morning, my friend.", {.beams = 1, .stop = {stop, ""}});
  EXPECT_EQ(by_text.text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_EQ(by_text.finish, Finish::kStop);
  EXPECT_EQ(
      translator().translate("Good morning, my friend.", {.beams = 1, .max_tokens = 2, .sampling = {.forced_eos_token_id = Ids()}}).finish,
      Finish::kLength);
}

TEST(Translate, ALongSourceIsAnErrorOrTruncated) {
  std::string text;
  for (const std::string& sentence : first_texts(60)) text += sentence + " ";
  EXPECT_THAT(
      [&] {
        translator().translate({"short", text});
      },
      testing::ThrowsMessage<Error>(testing::AllOf(testing::HasSubstr("source 2 has"), testing::HasSubstr("positions for 256"))));
  const Translation cut = translator().translate(text, {.max_tokens = 4, .truncate = true});
  EXPECT_EQ(cut.source_ids.size(), 256u);
  EXPECT_EQ(cut.source_ids.back(), translator().tokenize("short").back());
}

TEST(Translate, InvalidArgumentsAreErrors) {
  const auto refusal = [](const char* sentence) { return testing::ThrowsMessage<Error>(testing::HasSubstr(sentence)); };
  const Model decoder = Model::load((testing_support::source_root() / "models" / "fable").string());
  EXPECT_THAT([&] { decoder.translate("a"); }, refusal("no encoder"));
  EXPECT_THAT([&] { translator().generate("a"); }, refusal("use translate"));
  EXPECT_THAT([&] { translator().session(); }, refusal("use translate"));
  EXPECT_THAT([&] { translator().translate(Ids()); }, refusal("source 1 has no tokens"));
  EXPECT_THAT([&] { translator().translate(Ids{1, 1 << 20}); }, refusal("1048576"));
  EXPECT_THAT([&] { translator().translate(Ids{1, -5}); }, refusal("token id -5 is outside the vocabulary"));
  EXPECT_THAT([&] { translator().translate("a", {.language = "klingon"}); }, refusal("klingon"));
  EXPECT_THAT([&] { translator().translate("a", {.beams = 4, .sampling = {.temperature = 1.0}}); }, refusal("exclude each other"));
  EXPECT_THAT([&] { translator().translate("a", {.beams = 0}); }, refusal("num_beams is 0"));
  EXPECT_THAT([&] { translator().translate("a", {.beams = 2, .num_return_sequences = 3}); }, refusal("num_return_sequences is 3"));
  EXPECT_THAT([&] { translator().translate("a", {.max_tokens = 0}); }, refusal("at least 1"));
  EXPECT_THAT([&] { translator().translate("a", {.batch = 0}); }, refusal("batch is 0"));
  EXPECT_THAT([&] { translator_without_text().translate("a"); }, refusal("no tokenizer files"));
}

TEST(Translate, ThreadsShareOneModel) {
  const std::vector<std::string> texts = first_texts(4);
  const std::vector<Ids> expected = ids_of(translator().translate(texts));
  std::vector<std::vector<Ids>> found(3);
  std::vector<std::thread> threads;
  for (std::vector<Ids>& one : found) threads.emplace_back([&] { one = ids_of(translator().translate(texts)); });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<Ids>& one : found) EXPECT_EQ(one, expected);
}

}  // namespace
}  // namespace kvik
