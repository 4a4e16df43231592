// Encoder-decoders give the ids of the reference implementation, greedily and with beams, alone and in a batch.
#include <algorithm>
#include <fstream>
#include <gmock/gmock.h>

#include "engine/generation_config.h"
#include "engine/translate.h"
#include "kvik/error.h"
#include "support/models.h"

namespace kvik::engine {
namespace {

using Ids = std::vector<TokenId>;

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

struct Loaded {
  std::shared_ptr<backend::Backend> backend;
  GenerationConfig config;
};

Loaded load(const std::filesystem::path& folder, bool ort) {
  return {ort ? testing_support::open_ort(folder) : testing_support::open_reference(folder),
          read_generation_config(analysis::analyse(folder))};
}

std::vector<Ids> translated(const Loaded& model, const std::vector<Ids>& sources, int beams, size_t max_new) {
  const sample::Sampler sampler(model.config.sampling, static_cast<size_t>(model.backend->traits().vocab));
  TranslateOptions options;
  options.start = {*model.config.decoder_start};
  options.beams = {.num_beams = beams, .max_length = 1 + max_new, .eos_token_id = model.config.sampling.eos_token_id};
  std::vector<Ids> best;
  for (const Hypotheses& found : translate(*model.backend, sources, sampler, options)) best.push_back(found.front().ids);
  return best;
}

void expect_known(const KnownTranslator& known, bool ort) {
  const Loaded model = load(known.folder, ort);
  KVIK_NEEDS_ORT(model.backend);
  std::vector<Ids> sources, greedy, beams4;
  for (const KnownCase& one : known.cases) {
    sources.push_back(one.source);
    greedy.push_back(one.greedy);
    beams4.push_back(one.beams4);
    EXPECT_EQ(translated(model, {one.source}, 1, 24).front(), one.greedy) << known.folder;
    EXPECT_EQ(translated(model, {one.source}, 4, 24).front(), one.beams4) << known.folder;
  }
  // Sources of unequal length in one batch: the shorter ones are padded, and must not notice.
  EXPECT_EQ(translated(model, sources, 1, 24), greedy) << known.folder;
  EXPECT_EQ(translated(model, sources, 4, 24), beams4) << known.folder;
}

TEST(Translate, GivesTheExpectedIdsAloneAndInABatchOnTheReferenceEvaluator) {
  for (const KnownTranslator& known : known_translators()) expect_known(known, false);
}

TEST(Translate, GivesTheExpectedIdsAloneAndInABatchOnOnnxRuntime) {
  for (const KnownTranslator& known : known_translators()) expect_known(known, true);
}

TEST(Translate, TheEmbeddedTranslatorGivesItsExpectedIds) {
  const Loaded model = load(testing_support::source_root() / "models" / "en-zh", false);
  std::ifstream lines(testing_support::fixtures() / "models-expected" / "en-zh" / "expected.jsonl");
  std::vector<Ids> sources, greedy, beams4;
  for (std::string line; sources.size() < 12 && std::getline(lines, line);) {
    const Json json = parse_json(line, "expected.jsonl");
    sources.push_back(json["source_ids"]);
    greedy.push_back(json["greedy_ids"]);
    beams4.push_back(json["beam4_ids"]);
  }
  ASSERT_FALSE(sources.empty());
  EXPECT_EQ(translated(model, sources, 1, 64), greedy);
  EXPECT_EQ(translated(model, sources, 4, 64), beams4);
}

TEST(Translate, AMergedDecodersCrossAttentionIsThatOfStepOneAtStepThreeAndLater) {
  // The cached branch of a merged decoder returns empty keys and values of the source; taking them would break the third step.
  const std::filesystem::path folder = testing_support::source_root() / "models" / "en-zh";
  ASSERT_NE(analysis::analyse(folder).file_of(analysis::Stage::kDecoderMerged), nullptr);
  const Loaded model = load(folder, false);
  std::ifstream lines(testing_support::fixtures() / "models-expected" / "en-zh" / "expected.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const Json json = parse_json(line, "expected.jsonl");
  const Ids expected = json["greedy_ids"];
  ASSERT_GE(expected.size(), 3u);
  EXPECT_EQ(translated(model, {json["source_ids"].get<Ids>()}, 1, 64).front(), expected);
}

TEST(Translate, ThePadThatStartsTheDecoderIsBannedAfterwards) {
  const KnownTranslator known = known_translators().front();
  const Loaded model = load(known.folder, false);
  const TokenId pad = *model.config.decoder_start;
  for (const KnownCase& one : known.cases)
    EXPECT_THAT(translated(model, {one.source}, 1, 24).front(), testing::Not(testing::Contains(pad)));
}

TEST(Translate, ASourceThatIsEmptyOrTooLongIsASentence) {
  const Loaded model = load(testing_support::source_root() / "models" / "en-zh", false);
  EXPECT_THAT([&] { translated(model, {Ids{}}, 1, 8); }, testing::ThrowsMessage<Error>(testing::HasSubstr("empty")));
  EXPECT_THAT([&] { translated(model, {Ids(300, 5)}, 1, 8); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("300 tokens; the model has positions for 256")));
}

}  // namespace
}  // namespace kvik::engine
