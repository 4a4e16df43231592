// Encoder-decoders give the ids of the reference implementation, greedily and with beams, alone and in a batch.
#include <algorithm>
#include <fstream>
#include <gmock/gmock.h>

#include "engine/translators.h"
#include "kvik/error.h"

namespace kvik::engine {
namespace {

struct KnownCase {
  Ids source, greedy, beams4;
};

struct KnownTranslator {
  std::filesystem::path folder;
  std::vector<KnownCase> cases;
};

std::vector<KnownTranslator> known_translators() {
  std::vector<KnownTranslator> known;
  std::vector<std::filesystem::path> folders = {testing_support::fixtures() / "zoo" / "marian"};
  if (!testing_support::shared().empty()) {
    for (const char* name : {"marian", "t5", "bart"}) folders.push_back(testing_support::shared() / "zoo" / name);
  }
  for (const std::filesystem::path& folder : folders) {
    const Json json = read_json_file(folder / "expected.json");
    known.push_back({folder, {}});
    for (const Json& one : json["cases"]) known.back().cases.push_back({one["source_ids"], one["greedy_ids"], one["beam4_ids"]});
  }
  return known;
}

void expect_known(const KnownTranslator& known, bool ort) {
  const Loaded model = load(known.folder, ort);
  KVIK_NEEDS_ORT(model.backend);
  std::vector<Ids> sources, greedy, beams4;
  for (const KnownCase& one : known.cases) {
    sources.push_back(one.source);
    greedy.push_back(one.greedy);
    beams4.push_back(one.beams4);
    EXPECT_EQ(translated(model, {one.source}, {1, 24}).front(), one.greedy) << known.folder;
    EXPECT_EQ(translated(model, {one.source}, {4, 24}).front(), one.beams4) << known.folder;
  }
  // Sources of unequal length in one batch: the shorter ones are padded, and must not notice.
  EXPECT_EQ(translated(model, sources, {1, 24}), greedy) << known.folder;
  EXPECT_EQ(translated(model, sources, {4, 24}), beams4) << known.folder;
}

TEST(Translate, GivesTheExpectedIdsAloneAndInABatchOnTheReferenceEvaluator) {
  for (const KnownTranslator& known : known_translators()) expect_known(known, false);
}

TEST(Translate, GivesTheExpectedIdsAloneAndInABatchOnOnnxRuntime) {
  for (const KnownTranslator& known : known_translators()) expect_known(known, true);
}

std::vector<KnownCase> known_lines() {
  std::ifstream lines(testing_support::fixtures() / "models-expected" / "en-zh" / "expected.jsonl");
  std::vector<KnownCase> known;
  for (std::string line; std::getline(lines, line);) {
    const Json json = parse_json(line, "expected.jsonl");
    known.push_back({json["source_ids"], json["greedy_ids"], json["beam4_ids"]});
  }
  return known;
}

// Every `step`-th of the held-out lines, alone and in batches; tools/eval/translation runs all of them.
void expect_embedded(bool ort, size_t step) {
  const Loaded model = load(testing_support::source_root() / "models" / "en-zh", ort);
  KVIK_NEEDS_ORT(model.backend);
  const std::vector<KnownCase> known = known_lines();
  ASSERT_EQ(known.size(), 400u);
  std::vector<Ids> sources, greedy, beams4;
  for (size_t i = 0; i < known.size(); i += step) {
    sources.push_back(known[i].source);
    greedy.push_back(known[i].greedy);
    beams4.push_back(known[i].beams4);
    EXPECT_EQ(translated(model, {known[i].source}, {1, 64}).front(), known[i].greedy) << "line " << i;
    EXPECT_EQ(translated(model, {known[i].source}, {4, 64}).front(), known[i].beams4) << "line " << i;
  }
  EXPECT_EQ(translated(model, sources, {1, 64}), greedy);
  EXPECT_EQ(translated(model, sources, {4, 64}), beams4);
}

TEST(Translate, TheEmbeddedTranslatorGivesItsExpectedIdsOnTheReferenceEvaluator) { expect_embedded(false, 100); }

TEST(Translate, TheEmbeddedTranslatorGivesItsExpectedIdsOnOnnxRuntime) { expect_embedded(true, 16); }

TEST(Translate, AMergedDecodersCrossAttentionIsThatOfStepOneAtStepThreeAndLater) {
  // The cached branch of a merged decoder returns empty keys and values of the source; taking them would break the third step.
  const std::filesystem::path folder = testing_support::source_root() / "models" / "en-zh";
  ASSERT_NE(analysis::analyze(folder).file_of(analysis::Stage::kDecoderMerged), nullptr);
  const Loaded model = load(folder, false);
  const KnownCase known = known_lines().front();
  ASSERT_GE(known.greedy.size(), 3u);
  EXPECT_EQ(translated(model, {known.source}, {1, 64}).front(), known.greedy);
}

TEST(Translate, ThePadTokenThatStartsTheDecoderIsNeverGenerated) {
  const KnownTranslator known = known_translators().front();
  const Loaded model = load(known.folder, false);
  const TokenId pad = *model.config.decoder_start;
  ASSERT_THAT(*model.config.sampling.bad_words_ids, testing::Contains(Ids{pad}));
  Loaded unbanned = model;
  unbanned.config.sampling.bad_words_ids.reset();
  bool would_win = false;
  for (const KnownCase& one : known.cases) {
    EXPECT_THAT(translated(model, {one.source}, {1, 24}).front(), testing::Not(testing::Contains(pad)));
    EXPECT_THAT(translated(model, {one.source}, {4, 24}).front(), testing::Not(testing::Contains(pad)));
    const Ids without = translated(unbanned, {one.source}, {1, 24}).front();
    would_win = would_win || std::find(without.begin(), without.end(), pad) != without.end();
  }
  EXPECT_TRUE(would_win) << "the ban was not what kept it away";
}

TEST(Translate, SourcePaddingInABatchIsNotAttendedTo) {
  // One source beside one three times as long: were the padding seen, its logits and so its ids would be others.
  const KnownTranslator known = known_translators().front();
  const Loaded model = load(known.folder, false);
  const KnownCase &shortest = known.cases.front(), &longest = known.cases.back();
  ASSERT_LT(shortest.source.size() * 3, longest.source.size());
  EXPECT_EQ(translated(model, {shortest.source, longest.source}, {1, 24}), (std::vector<Ids>{shortest.greedy, longest.greedy}));
  EXPECT_EQ(translated(model, {longest.source, shortest.source}, {4, 24}), (std::vector<Ids>{longest.beams4, shortest.beams4}));
}

TEST(Translate, EverySourceIsEncodedAndProjectedOnce) {
  const KnownTranslator known = known_translators().front();
  for (const int beams : {1, 4}) {
    const Loaded model = load(known.folder, false);
    std::vector<Ids> sources;
    for (const KnownCase& one : known.cases) sources.push_back(one.source);
    translated(model, sources, {beams, 24});
    const backend::SourceWork work = model.backend->source_work();
    EXPECT_EQ(work.encoded, static_cast<int64_t>(sources.size()));
    EXPECT_EQ(work.cross_projected, static_cast<int64_t>(sources.size()));
  }
}

TEST(Translate, ASourceThatIsEmptyOrTooLongIsAnError) {
  const Loaded model = load(testing_support::source_root() / "models" / "en-zh", false);
  EXPECT_THAT([&] { translated(model, {Ids{}}, {1, 8}); }, testing::ThrowsMessage<Error>(testing::HasSubstr("empty")));
  EXPECT_THAT(
      [&] {
        translated(model, {Ids(300, 5)}, {1, 8});
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("300 tokens; the model has positions for 256")));
}

}  // namespace
}  // namespace kvik::engine
