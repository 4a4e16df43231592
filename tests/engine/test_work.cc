#include <gmock/gmock.h>

#include "engine/scripted.h"

namespace kvik::engine {
namespace {

struct Completed {
  std::map<size_t, std::vector<TokenId>> ids;  // by source
  size_t n_runs = 0;
  std::vector<std::string> encoded;  // "encode 2"
  int most_sources_alive = 0;
};

// 32 sources, of which every fourth has 40 tokens and the others fewer, each of its own length.
Completed complete_sources(size_t n_parts, size_t limit_bytes = 0) {
  Log log;
  const auto backend = std::make_shared<ScriptedBackend>(log, 100);
  backend->limit_bytes = limit_bytes;
  const auto decoder = std::make_shared<Decoder>(backend);
  SourcesRequest request(decoder, 32, 0);
  request.n_tokens_of = [](size_t source) { return source % 4 == 0 ? 40 : 2 + source % 16; };
  EXPECT_TRUE(complete(request, decoder, {.n_parts = n_parts, .reuse_sources = false}));
  Completed completed{request.ids, 0, {}, backend->most_sources_alive};
  for (const std::string& event : log.read()) {
    if (event == "run") ++completed.n_runs;
    if (event.starts_with("encode")) completed.encoded.push_back(event);
  }
  return completed;
}

TEST(Work, NewPartsStartAsOthersEnd) {
  const Completed completed = complete_sources(16);
  EXPECT_EQ(completed.ids.size(), 32u);
  EXPECT_LT(completed.n_runs, 60u) << "two batches, one after the other, take 80";
}

TEST(Work, SourcesOfPartsThatRunNextAreEncodedTogether) {
  EXPECT_THAT(complete_sources(16).encoded, testing::ElementsAre("encode 16", "encode 16"));
  EXPECT_THAT(complete_sources(20).encoded, testing::ElementsAre("encode 20", "encode 12"));
}

TEST(Work, SourcesAreEncodedForFreePlacesOnlyIfMemoryIsLimited) {
  Completed completed = complete_sources(16, 1 << 20);
  EXPECT_EQ(completed.most_sources_alive, 16);
  EXPECT_EQ(completed.encoded.front(), "encode 16");
  completed.encoded.pop_back();  // what is left for the last call
  EXPECT_THAT(completed.encoded, testing::Not(testing::Contains("encode 1")));
}

TEST(Work, ResultsDoNotDependOnHowManyPartsRunTogether) {
  const Completed alone = complete_sources(1);
  for (const size_t n_parts : {2, 7, 16, 64}) {
    EXPECT_EQ(complete_sources(n_parts).ids, alone.ids) << n_parts;
    EXPECT_EQ(complete_sources(n_parts, 1 << 20).ids, alone.ids) << n_parts;
  }
}

TEST(Work, IsCancelledBetweenTwoSteps) {
  Log log;
  const auto decoder = std::make_shared<Decoder>(std::make_shared<ScriptedBackend>(log, 100));
  SourcesRequest request(decoder, 8, 5);
  int n_polled = 0;
  EXPECT_FALSE(complete(request, decoder, {.n_parts = 2, .reuse_sources = false, .cancelled = [&] { return ++n_polled > 7; }}));
  EXPECT_EQ(request.found, (std::vector<size_t>{5, 5})) << "two parts of five tokens in seven steps, and two have begun";
}

}  // namespace
}  // namespace kvik::engine
