#include <gmock/gmock.h>
#include <thread>

#include "c_program.h"
#include "kvik/kvik_c.h"
#include "support/paths.h"

namespace kvik {
namespace {

std::string folder_of(const char* model) { return (testing_support::source_root() / "models" / model).string(); }

TEST(C, GeneratesThePiecesOfTheWholeText) { EXPECT_STREQ(c_generates(folder_of("fable").c_str()), nullptr); }
TEST(C, CallbacksAndStopTextsEndAGeneration) { EXPECT_STREQ(c_callbacks_stop(folder_of("fable").c_str()), nullptr); }
TEST(C, AGenerationContinuesASession) { EXPECT_STREQ(c_continues_a_session(folder_of("fable").c_str()), nullptr); }
TEST(C, SessionsForkAndRewind) { EXPECT_STREQ(c_forks_and_rewinds(folder_of("fable").c_str()), nullptr); }
TEST(C, AFullCacheIsAStatus) { EXPECT_STREQ(c_runs_out_of_memory(folder_of("fable").c_str()), nullptr); }
TEST(C, APathOfATreeIsKept) { EXPECT_STREQ(c_keeps_a_path_of_a_tree(folder_of("fable").c_str()), nullptr); }
TEST(C, ASavedSessionContinuesWithTheSameBits) {
  const testing_support::TemporaryFolder folder;
  EXPECT_STREQ(c_saves_and_loads(folder_of("fable").c_str(), (folder.path() / "a.kv").c_str()), nullptr);
}
TEST(C, SessionsInOneStepGetTheSameBitsAsAlone) { EXPECT_STREQ(c_steps_many_sessions(folder_of("fable").c_str()), nullptr); }
TEST(C, TranslatesTextsAndIds) { EXPECT_STREQ(c_translates(folder_of("en-zh").c_str()), nullptr); }
TEST(C, EmbedsIds) { EXPECT_STREQ(c_embeds((testing_support::fixtures() / "zoo" / "bert").c_str(), folder_of("fable").c_str()), nullptr); }
TEST(C, TranscribesSamplesAloneAndInAnEngine) {
  const testing_support::TemporaryFolder folder;
  for (const auto& part : std::filesystem::directory_iterator(testing_support::fixtures() / "forms" / "speech"))
    std::filesystem::copy(part.path(), folder.path() / part.path().filename());
  folder.write("preprocessor_config.json",
               R"({"feature_size": 8, "n_fft": 400, "hop_length": 800, "chunk_length": 1, "sampling_rate": 16000})");
  EXPECT_STREQ(c_transcribes(folder.path().c_str()), nullptr);
}
TEST(C, ScoresIds) { EXPECT_STREQ(c_scores(folder_of("fable").c_str()), nullptr); }
TEST(C, BuffersAreFilledWholeOrNotAtAll) { EXPECT_STREQ(c_copies_into_buffers(folder_of("fable").c_str()), nullptr); }
TEST(C, NullIsAnErrorEverywhere) { EXPECT_STREQ(c_refuses_null(folder_of("fable").c_str()), nullptr); }
TEST(C, InvalidArgumentsAreErrors) { EXPECT_STREQ(c_refuses_what_cannot_be(folder_of("fable").c_str()), nullptr); }
TEST(C, ASessionInUseIsLeftAlone) { EXPECT_STREQ(c_refuses_sessions_in_use(folder_of("fable").c_str()), nullptr); }
TEST(C, SpeculationGivesTheSameIds) { EXPECT_STREQ(c_speculates(folder_of("fable").c_str()), nullptr); }
TEST(C, StructsMayGrow) { EXPECT_STREQ(c_structs_grow(folder_of("fable").c_str()), nullptr); }

TEST(C, StreamsOfAnEngineGetTheSameTextAsAlone) { EXPECT_STREQ(c_streams(folder_of("fable").c_str()), nullptr); }
TEST(C, AStreamIsPolledAndCancelled) { EXPECT_STREQ(c_polls_and_cancels(folder_of("fable").c_str()), nullptr); }
TEST(C, AFullQueueOfAnEngineIsAStatus) { EXPECT_STREQ(c_fills_a_queue(folder_of("fable").c_str()), nullptr); }
TEST(C, TranslationsOfAnEngineEqualThoseAlone) { EXPECT_STREQ(c_translates_in_an_engine(folder_of("en-zh").c_str()), nullptr); }
TEST(C, EmbeddingsOfAnEngineEqualThoseAlone) {
  EXPECT_STREQ(c_embeds_in_an_engine((testing_support::fixtures() / "zoo" / "bert").c_str()), nullptr);
}
TEST(C, NullIsAnErrorOfEnginesToo) { EXPECT_STREQ(c_refuses_null_engines(folder_of("fable").c_str()), nullptr); }

TEST(C, EachThreadHasItsOwnLastError) {
  kvik_model* model = nullptr;
  ASSERT_EQ(kvik_model_load("no-such-model", nullptr, &model), KVIK_STATUS_IO);
  std::string elsewhere = "unread";
  std::thread([&] { elsewhere = kvik_last_error(); }).join();
  EXPECT_EQ(elsewhere, "");
  EXPECT_THAT(kvik_last_error(), testing::HasSubstr("no-such-model"));
}

TEST(C, NoExceptionLeavesACall) {
  kvik_model* model = nullptr;
  ASSERT_EQ(kvik_model_load(folder_of("fable").c_str(), nullptr, &model), KVIK_STATUS_OK);
  kvik_generate_options options;
  kvik_generate_options_init(&options, sizeof options);
  options.piece = [](void*, const char*, size_t) -> bool { throw 7; };
  EXPECT_EQ(kvik_generate(model, "The king", &options, nullptr), KVIK_STATUS_INTERNAL);
  kvik_model_free(model);
}

}  // namespace
}  // namespace kvik
