// Speech: expected ids from features, sounds window by window, and the decoder's start tokens.
#include <gmock/gmock.h>

#include "engine/speech/control_tokens.h"
#include "engine/speech/speech.h"
#include "engine/translators.h"
#include "kvik/error.h"

namespace kvik::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::filesystem::path speech_form() { return testing_support::fixtures() / "forms" / "speech"; }

// A sound of zeros and ones whose every window is the same.
class Ticks final : public audio::Sound {
 public:
  explicit Ticks(int64_t n) : n_(n) {}
  int rate() const override { return 16000; }
  int64_t n_samples() const override { return n_; }
  void read(int64_t first, std::span<float> target) const override {
    for (size_t i = 0; i < target.size(); ++i) target[i] = (first + static_cast<int64_t>(i)) % 400 < 40 ? 0.5f : -0.1f;
  }

 private:
  int64_t n_;
};

// Twenty frames of eight mels: what the encoder of the form reads.
audio::FeatureExtractor small_extractor() {
  return audio::FeatureExtractor({.mel = {.n_mels = 8, .n_fft = 400, .hop_length = 160, .rate = 16000}, .window_samples = 3200});
}

std::optional<TokenId> likeliest_of(const Loaded& model, const EncodedSource& source, const Ids& candidates, TokenId start) {
  const std::shared_ptr<Decoder> decoder = model.decoder();
  Stream stream(Sequence(decoder, 0, source.encoded), std::make_unique<LanguageStrategy>(candidates));
  stream.branches.front().push(start);
  Stream* const alone[] = {&stream};
  decoder->finish(alone);
  return static_cast<const LanguageStrategy&>(*stream.strategy).chosen();
}

void expect_speech_form(const std::filesystem::path& folder, bool ort) {
  const Loaded model = load(folder, ort);
  KVIK_NEEDS_ORT(model.backend);
  const Json known = read_json_file(folder / "expect.json");
  for (const Json& one : known["cases"]) {
    Dims dims = one["audio_features"]["shape"];
    dims.erase(dims.begin());
    const std::vector<EncodedSource> encoded = encode_features(*model.backend, std::vector<Tensor>{made_by_formula(dims)});
    const TargetOptions options = options_for(model, {1, one["greedy_ids"].size(), one["prompt_ids"]});
    EXPECT_EQ(best_of(find_targets(model.decoder(), model.sampler(), encoded, options)).front(), one["greedy_ids"].get<Ids>());
  }
}

TEST(Speech, AnEncoderThatGivesTheCrossCacheItselfGivesTheExpectedIds) {
  expect_speech_form(speech_form(), false);
  expect_speech_form(speech_form(), true);
}

// All layers in one tensor, buffers of fixed size, and names that do not say what is a cache.
TEST(Speech, CrossKeysOfAllLayersUnderNamesOfTheirOwnGiveTheExpectedIds) {
  const std::filesystem::path folder = testing_support::fixtures() / "forms" / "speech-layered";
  expect_speech_form(folder, false);
  expect_speech_form(folder, true);
}

// Of an exporter: hidden states from the encoder, a merged decoder without a mask of the source, languages and tasks.
void expect_exported(bool ort) {
  const std::filesystem::path folder = testing_support::fixtures() / "zoo" / "small-speech";
  const Loaded model = load(folder, ort);
  KVIK_NEEDS_ORT(model.backend);
  const Json expected = read_json_file(folder / "expected.json");
  for (const Json& one : expected["cases"]) {
    Dims dims = one["input_features"]["shape"];
    dims.erase(dims.begin());
    const std::vector<Tensor> features = {made_by_formula(dims), made_by_formula(dims)};
    const auto name_of = [&](const auto& tokens, TokenId id) {
      for (const auto& [name, token] : tokens) {
        if (token == id) return name;
      }
      return std::string();
    };
    const Ids start = one["start_ids"];
    TranscribeOptions options;
    options.request = {name_of(model.config.languages, start[1]), name_of(model.config.tasks, start[2])};
    options.max_new_tokens = 24;
    for (const int beams : {1, 4}) {
      options.target = options_for(model, {beams});
      const Transcript heard = transcribe(model.decoder(), *windows_of(features), model.config, model.sampler(), options);
      EXPECT_EQ(heard.start, start);
      for (const TranscribedWindow& window : heard.windows)
        EXPECT_EQ(window.targets.front().ids, one[beams == 1 ? "greedy_ids" : "beam4_ids"].get<Ids>());
    }
    const std::vector<EncodedSource> encoded = encode_features(*model.backend, std::span(features).first(1));
    const Ids languages = languages_to_detect(model.config, {});
    const Ids listened = speech_start(model.config, {}, likeliest_of(model, encoded.front(), languages, *model.config.decoder_start));
    EXPECT_EQ(language_of(model.config, listened), one["heard"].get<std::string>());
    options.request = {};
    const Transcript heard = transcribe(model.decoder(), *windows_of(features), model.config, model.sampler(), options);
    EXPECT_EQ(heard.start, listened);
    EXPECT_EQ(heard.windows.size(), features.size());
  }
}

TEST(Speech, AnExportedModelGivesTheExpectedIdsForEveryLanguageAndTask) {
  expect_exported(false);
  expect_exported(true);
}

TEST(Speech, FeaturesOfAnotherShapeAreAnError) {
  const Loaded model = load(speech_form(), false);
  EXPECT_THAT(
      [&] {
        encode_features(*model.backend, std::vector<Tensor>{Tensor(DType::kF32, {8, 21})});
      },
      ThrowsMessage<Error>(HasSubstr("input 'audio_features' has shape [-1, 8, 20] (-1: any); got [1, 8, 21]")));
  EXPECT_THAT(
      [&] {
        encode_tokens(*model.backend, std::vector<Ids>{{1, 2}});
      },
      ThrowsMessage<Error>(HasSubstr("the encoder reads 'audio_features'")));
}

TEST(Speech, ALongRecordingGivesTheSameWindowsAsEachAlone) {
  const Loaded model = load(speech_form(), false);
  const audio::FeatureExtractor extractor = small_extractor();
  TranscribeOptions options;
  options.target = options_for(model, {});
  options.max_new_tokens = 6;
  options.batch = 2;
  int n_heard = 0, n_said = 0;
  options.on_window = [&](const TranscribedWindow&, int total) { ++n_heard, n_said = total; };
  const Transcript whole =
      transcribe(model.decoder(), *windows_of(Ticks(3200 * 4 + 1000), extractor), model.config, model.sampler(), options);
  ASSERT_EQ(whole.windows.size(), 5u);
  EXPECT_EQ(n_heard, 5);
  EXPECT_EQ(n_said, 5);
  EXPECT_EQ(model.backend->source_work().encoded, 5);
  EXPECT_DOUBLE_EQ(whole.windows[4].start_s, 0.8);
  EXPECT_DOUBLE_EQ(whole.windows[4].end_s, 0.8625);
  const Transcript one = transcribe(model.decoder(), *windows_of(Ticks(3200), extractor), model.config, model.sampler(), options);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(whole.windows[i].targets.front().ids, one.windows.front().targets.front().ids);
  const Transcript end = transcribe(model.decoder(), *windows_of(Ticks(1000), extractor), model.config, model.sampler(), options);
  EXPECT_EQ(whole.windows[4].targets.front().ids, end.windows.front().targets.front().ids);
}

TEST(Speech, TheStartTokensAndTheNewOnesFitTheModelsPositions) {
  const Loaded model = load(speech_form(), false);
  GenerationConfig config = model.config;
  config.forced_decoder_ids = {{1, 3}, {2, 4}};
  TranscribeOptions options;
  options.target = options_for(model, {});
  options.target.beams.eos_token_id.clear();
  options.max_new_tokens = 1000;
  const Transcript heard = transcribe(model.decoder(), *windows_of(Ticks(100), small_extractor()), config, model.sampler(), options);
  EXPECT_THAT(heard.start, ElementsAre(0, 3, 4));
  EXPECT_EQ(heard.windows.front().targets.front().ids.size(), 29u);  // 32 positions
}

class Starts : public testing::Test {
 protected:
  Starts() {
    config.decoder_start = 100;
    config.languages = {{"<|en|>", 101}, {"<|de|>", 102}};
    config.tasks = {{"transcribe", 103}, {"translate", 104}};
    config.no_timestamps = 105;
  }
  Ids start(const SpeechRequest& request = {}) const {
    const Ids languages = languages_to_detect(config, request);
    return speech_start(config, request, languages.empty() ? std::nullopt : std::optional(languages.back()));
  }
  GenerationConfig config;
};

// What transformers 4.57 makes of the same configs.
TEST_F(Starts, NameTheRequestedLanguageAndTask) {
  EXPECT_THAT(start({"de", "translate"}), ElementsAre(100, 102, 104, 105));
  EXPECT_THAT(start({"<|en|>", {}}), ElementsAre(100, 101, 103, 105));
  config.language = "en";
  EXPECT_THAT(start(), ElementsAre(100, 101, 103, 105));
  EXPECT_THAT(start({"de", {}}), ElementsAre(100, 102, 103, 105));
}

TEST_F(Starts, DetectTheLanguageIfNoneIsRequested) {
  EXPECT_THAT(start(), ElementsAre(100, 102, 105));
  EXPECT_THAT(start({{}, "translate"}), ElementsAre(100, 102, 104, 105));
  config.forced_decoder_ids = {{1, std::nullopt}, {2, 103}};
  EXPECT_THAT(start(), ElementsAre(100, 102, 103, 105));
}

TEST_F(Starts, UseForcedTokensUnlessALanguageOrTaskIsRequested) {
  config.forced_decoder_ids = {{1, 101}, {2, 104}, {3, 105}};
  EXPECT_THAT(start(), ElementsAre(100, 101, 104, 105));
  EXPECT_THAT(start({"de", {}}), ElementsAre(100, 102, 103, 105));
  config = {};
  config.decoder_start = 7;
  EXPECT_THAT(start(), ElementsAre(7));
}

TEST_F(Starts, NameWhatIsMissing) {
  EXPECT_THAT([&] { start({"fr", {}}); }, ThrowsMessage<Error>(HasSubstr("the language 'fr' is unknown; this model has: en, de")));
  EXPECT_THAT([&] { start({{}, "sing"}); }, ThrowsMessage<Error>(HasSubstr("the task 'sing' is unknown")));
  config.forced_decoder_ids = {{2, 103}};
  EXPECT_THAT([&] { start(); }, ThrowsMessage<Error>(HasSubstr("position 2; one for position 1 was expected")));
  config.languages.clear();
  EXPECT_THAT([&] { start({"de", {}}); }, ThrowsMessage<Error>(HasSubstr("has only one")));
  config.decoder_start.reset();
  EXPECT_THAT([&] { start(); }, ThrowsMessage<Error>(HasSubstr("decoder_start_token_id")));
}

TEST(Speech, TheDetectedLanguageHasTheHighestLogit) {
  const Loaded model = load(speech_form(), false);
  const std::vector<EncodedSource> encoded = encode_features(*model.backend, std::vector<Tensor>{made_by_formula({8, 20})});
  Ids all;
  for (TokenId id = 0; id < 50; ++id) all.push_back(id);
  EXPECT_EQ(likeliest_of(model, encoded.front(), all, 13), 0);  // the first greedy id of the form
  const Ids beyond = {3, 50};
  EXPECT_THAT([&] { likeliest_of(model, encoded.front(), beyond, 13); }, ThrowsMessage<Error>(HasSubstr("token 50")));
}

// As written by exporters without a generation_config.json: only the tokenizer has the tokens.
std::shared_ptr<const text::Tokenizer> speech_tokenizer() {
  Json json = Json::parse(R"({"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"},"added_tokens":[],
    "post_processor":{"type":"TemplateProcessing","pair":[],"special_tokens":{},
                      "single":[{"SpecialToken":{"id":"<|start|>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
                                {"SpecialToken":{"id":"<|end|>","type_id":0}}]}})");
  int id = 1;
  for (const char* piece : {"<|end|>", "<|start|>", "<|en|>", "<|haw|>", "<|translate|>", "<|transcribe|>", "<|notimestamps|>"}) {
    json["added_tokens"].push_back({{"id", id},
                                    {"content", piece},
                                    {"special", true},
                                    {"normalized", false},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false}});
    json["post_processor"]["special_tokens"][piece] = {{"id", piece}, {"ids", {id}}, {"tokens", {piece}}};
    ++id;
  }
  return text::Tokenizer::from_json(json.dump(), "a test");
}

TEST(Speech, TheTokenizerFillsInWhatTheConfigFilesLeaveOut) {
  GenerationConfig config;
  complete_from_tokenizer(config, *speech_tokenizer());
  EXPECT_THAT(languages_to_detect(config, {"en", "translate"}), testing::IsEmpty());
  EXPECT_THAT(speech_start(config, {"en", "translate"}), ElementsAre(2, 3, 5, 7));
  EXPECT_THAT(languages_to_detect(config, {}), ElementsAre(3, 4));
  EXPECT_THAT(speech_start(config, {}, 4), ElementsAre(2, 4, 7));
}

TEST(Speech, AModelThatGeneratesWithoutLanguageTokensGetsThemOnlyWhenAsked) {
  GenerationConfig config;
  config.has_own_file = true;
  complete_from_tokenizer(config, *speech_tokenizer());
  EXPECT_THAT(languages_to_detect(config, {}), testing::IsEmpty());
  EXPECT_THAT(speech_start(config, {}), ElementsAre(2));
  EXPECT_THAT(speech_start(config, {"haw", {}}), ElementsAre(2, 4, 6, 7));
}

TEST(Speech, TimestampsAreNotText) {
  EXPECT_TRUE(is_time("<|12.34|>"));
  EXPECT_FALSE(is_time("<|en|>"));
  EXPECT_FALSE(is_time("12.34"));
  EXPECT_FALSE(is_time("<||>"));
}

}  // namespace
}  // namespace kvik::engine
