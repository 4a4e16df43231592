// Constrained output through every door: generations, sessions, engines, beams, speculation.
#include <gmock/gmock.h>
#include <regex>

#include "kvik/engine.h"
#include "kvik/kvik_c.h"
#include "support/paths.h"

namespace kvik {
namespace {

using testing::HasSubstr;

const Model& tales() {
  static const Model model = Model::load((testing_support::source_root() / "models" / "fable").string());
  return model;
}

constexpr const char* kPrompt = "Once upon a time, there was a fox.";
constexpr const char* kPattern = "[A-Z][a-z]{2,9} (likes|hates) [0-9]{2,4}( and \"[^\"]{1,20}\")?!";

GenerateOptions drawn(uint64_t seed, int max_tokens = 60) {
  return {.max_tokens = max_tokens, .sampling = {.temperature = 1.0, .seed = seed}, .constraint = Constraint::regex(kPattern)};
}

bool has_measured_masks(const Generation& generation) { return generation.metrics().mask_ms > 0; }

bool matches(const std::string& text) { return std::regex_match(text, std::regex(kPattern)); }

TEST(Constraints, EveryFinishedTextMatches) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Generation generation = tales().generate(kPrompt, drawn(seed));
    const std::string text = generation.text();
    EXPECT_EQ(generation.finish(), Finish::kStop);
    EXPECT_TRUE(matches(text)) << text;
    EXPECT_TRUE(has_measured_masks(generation));
  }
  GenerateOptions greedy = drawn(0);
  greedy.sampling = {.temperature = 0.0};
  EXPECT_TRUE(matches(tales().generate(kPrompt, greedy).text()));
}

TEST(Constraints, ATextCutOffByALimitFinishesWithLength) {
  Generation generation = tales().generate(kPrompt, drawn(1, 3));
  EXPECT_EQ(generation.text().find('!'), std::string::npos);
  EXPECT_EQ(generation.finish(), Finish::kLength);
}

TEST(Constraints, PenaltiesStopIdsAndForcedTokensDoNotBreakThem) {
  GenerateOptions options = drawn(3);
  options.sampling.repetition_penalty = 1.4;
  options.sampling.remove_invalid_values = true;
  options.sampling.forced_eos_token_id = tales().eos_ids();
  options.sampling.logit_bias = {{tales().tokenize("?", false).back(), 100.0}};
  options.ignore_eos = true;
  options.stop_ids = {tales().tokenize("likes", false).back()};
  Generation generation = tales().generate(kPrompt, options);
  const std::string text = generation.text();
  EXPECT_TRUE(matches(text)) << text;
}

TEST(Constraints, AnEndTokenIsAllowedWhereTheTextMatches) {
  GenerateOptions options{.max_tokens = 40, .sampling = {.temperature = 1.0, .seed = 5}, .constraint = Constraint::regex("(ab)*c*")};
  for (const TokenId id : tales().eos_ids()) options.sampling.logit_bias = {{id, 100.0}};
  Generation empty = tales().generate(kPrompt, options);  // nothing matches already
  EXPECT_EQ(empty.text(), "");
  EXPECT_EQ(empty.finish(), Finish::kStop);
  options.constraint = Constraint::regex("ab(ab)*c*");
  EXPECT_EQ(tales().generate(kPrompt, options).text(), "ab");
}

TEST(Constraints, StreamsOfAnEngineGetTheSameTextAsAlone) {
  Engine engine(tales(), {.max_sequences = 8});
  std::vector<Stream> streams;
  std::vector<std::string> alone, together;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    GenerateOptions options = drawn(seed, 30);
    if (seed % 3 == 1)
      options.constraint = Constraint::json_schema(
          R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}, "required": ["name"]})");
    if (seed % 3 == 2) options.constraint.reset();
    streams.push_back(engine.submit(kPrompt, options));
    alone.push_back(tales().generate(kPrompt, options).text());
  }
  for (Stream& stream : streams) together.push_back(stream.text());
  EXPECT_EQ(together, alone);
}

TEST(Constraints, SpeculationGivesTheSameTokens) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    GenerateOptions options = drawn(seed, 80);
    options.sampling.temperature = 0.5;
    options.constraint = Constraint::grammar("root ::= (\"the fox \" | \"the hen \" | [a-z]+ \" \"){4,30}");
    Generation plain = tales().generate(kPrompt, options);
    plain.text();
    options.speculate = Speculate::kLookup;
    Generation ahead = tales().generate(kPrompt, options);
    ahead.text();
    EXPECT_EQ(ahead.ids(), plain.ids());
  }
}

TEST(Constraints, ForcedTextIsComputedAheadAndGivesTheSameTokens) {
  const Constraint constraint = Constraint::grammar("root ::= (\"the little fox said to the old bear: \" [a-z]+ \". \"){9}");
  for (uint64_t seed = 0; seed < 4; ++seed) {
    GenerateOptions options{.max_tokens = 200, .sampling = {.temperature = 0.5, .seed = seed}, .constraint = constraint};
    Generation ahead = tales().generate(kPrompt, options);
    ahead.text();
    EXPECT_GT(ahead.metrics().accepted_tokens, 0);
    options.use_cache = false;
    Generation plain = tales().generate(kPrompt, options);
    plain.text();
    EXPECT_EQ(plain.metrics().proposed_tokens, 0);
    EXPECT_EQ(ahead.ids(), plain.ids());
  }
}

TEST(Constraints, BeamsFindTextsThatMatch) {
  GenerateOptions options{.max_tokens = 40, .beams = 4, .constraint = Constraint::regex("(The|A) [a-z]{3,8} [a-z]{3,8}\\.")};
  Generation generation = tales().generate(kPrompt, options);
  EXPECT_TRUE(std::regex_match(generation.text(), std::regex("(The|A) [a-z]{3,8} [a-z]{3,8}\\.")));
  EXPECT_EQ(generation.finish(), Finish::kStop);
  EXPECT_TRUE(has_measured_masks(generation));
}

TEST(Constraints, EachAnswerOfASessionStartsANewMatch) {
  Session session = tales().session();
  std::vector<TokenId> ids = tales().tokenize(kPrompt);
  for (uint64_t turn = 0; turn < 3; ++turn) {
    Generation generation = tales().generate(session, ids, drawn(turn));
    const std::string text = generation.text();
    EXPECT_TRUE(matches(text)) << text;
    ids.insert(ids.end(), generation.ids().begin(), generation.ids().end());
  }
}

TEST(Constraints, AModelWithoutATokenizerIsAnError) {
  const Model model = Model::load((testing_support::fixtures() / "zoo" / "qwen2").string());
  const TokenId prompt[] = {1, 2};
  try {
    model.generate(prompt, {.constraint = Constraint::json_object()});
    FAIL();
  } catch (const Error& e) { EXPECT_THAT(e.what(), HasSubstr("this model has no tokenizer")); }
}

TEST(Constraints, CPrograms) {
  kvik_constraint* constraint = nullptr;
  EXPECT_EQ(kvik_constraint_regex("a(", &constraint), KVIK_STATUS_BAD_ARGUMENT);
  EXPECT_EQ(constraint, nullptr);
  EXPECT_THAT(kvik_last_error(), HasSubstr("')' was expected"));
  EXPECT_EQ(kvik_constraint_json_schema(R"({"not": {}})", &constraint), KVIK_STATUS_BAD_ARGUMENT);
  ASSERT_EQ(kvik_constraint_json_object(&constraint), KVIK_STATUS_OK);
  kvik_constraint_free(constraint);
  ASSERT_EQ(kvik_constraint_grammar("root ::= [0-9]{3} \"!\"", &constraint), KVIK_STATUS_OK);
  kvik_model* model = nullptr;
  ASSERT_EQ(kvik_model_load((testing_support::source_root() / "models" / "fable").c_str(), nullptr, &model), KVIK_STATUS_OK);
  kvik_generate_options options;
  kvik_generate_options_init(&options, sizeof options);
  options.constraint = constraint;
  kvik_generation* generation = nullptr;
  ASSERT_EQ(kvik_generate(model, kPrompt, &options, &generation), KVIK_STATUS_OK);
  kvik_generated generated = {.size = sizeof generated};
  ASSERT_EQ(kvik_generation_get(generation, &generated), KVIK_STATUS_OK);
  EXPECT_TRUE(std::regex_match(generated.text, std::regex("[0-9]{3}!"))) << generated.text;
  EXPECT_EQ(generated.finish, KVIK_FINISH_STOP);
  kvik_generation_free(generation);
  kvik_model_free(model);
  kvik_constraint_free(constraint);
}

}  // namespace
}  // namespace kvik
