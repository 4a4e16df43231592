// Embeddings of an engine: vectors between the steps of generations, each with the bits it has alone.
#include <gmock/gmock.h>

#include "kvik/engine.h"
#include "support/paths.h"

namespace kvik {
namespace {

using Ids = std::vector<TokenId>;

std::vector<Ids> texts_to_embed(size_t n, int vocab) {
  std::vector<Ids> all;
  for (size_t t = 0; t < n; ++t) {
    all.emplace_back();
    for (size_t i = 0; i < 1 + t * 13 % 60; ++i) all.back().push_back(static_cast<TokenId>((t * 31 + i * 7) % static_cast<size_t>(vocab)));
  }
  return all;
}

void expect_vectors(const std::vector<Embedding>& found, const std::vector<Embedding>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].values, expected[i].values) << i;
    EXPECT_EQ(found[i].tokens, expected[i].tokens) << i;
  }
}

TEST(EngineEmbeddings, EmbeddingsOfManyRequestsHaveTheSameBitsAsAlone) {
  const Model model = Model::load((testing_support::fixtures() / "zoo" / "bert").string());
  Engine engine(model, {.max_sequences = 3});
  std::vector<EmbeddingTask> tasks;
  for (size_t i = 0; i < 12; ++i)
    tasks.push_back(
        engine.embed(texts_to_embed(1 + i * 3, 300), {.pooling = i % 2 == 0 ? "mean" : "cls"}, {.user = std::to_string(i % 3)}));
  for (size_t i = 0; i < tasks.size(); ++i)
    expect_vectors(tasks[i].get(), model.embed(texts_to_embed(1 + i * 3, 300), {.pooling = i % 2 == 0 ? "mean" : "cls"}));
}

TEST(EngineEmbeddings, ATextThatCannotBeEmbeddedDoesNotAffectOthers) {
  const Model model = Model::load((testing_support::fixtures() / "zoo" / "bert").string());
  Engine engine(model);
  EmbedOptions failing{.pooling = "mean"};
  failing.progress = [](int, int) { throw Error(Code::kBadArgument, "enough"); };
  EmbeddingTask good = engine.embed(texts_to_embed(20, 300), {.pooling = "mean"});
  EmbeddingTask bad = engine.embed(texts_to_embed(20, 300), failing);
  EXPECT_THROW(bad.get(), Error);
  expect_vectors(good.get(), model.embed(texts_to_embed(20, 300), {.pooling = "mean"}));
}

// A model that does both: vectors between the steps of generations.
TEST(EngineEmbeddings, GenerationsAndEmbeddingsOfOneModelKeepTheirBits) {
  const Model model = Model::load((testing_support::fixtures() / "forms" / "logits-and-hidden-states").string());
  ASSERT_TRUE(model.can_generate() && model.can_embed());
  Engine engine(model, {.max_sequences = 2});
  const GenerateOptions generate{.max_tokens = 12, .sampling = {.temperature = 0.9, .seed = 3}, .ignore_eos = true};
  std::vector<Stream> streams;
  std::vector<EmbeddingTask> tasks;
  for (TokenId i = 0; i < 6; ++i) {
    streams.push_back(engine.submit(Ids{1, i, 2}, generate));
    tasks.push_back(engine.embed(texts_to_embed(9, 40), {.pooling = "mean"}));
  }
  const std::vector<Embedding> expected = model.embed(texts_to_embed(9, 40), {.pooling = "mean"});
  for (TokenId i = 0; i < 6; ++i) {
    streams[static_cast<size_t>(i)].text();
    Generation alone = model.generate(Ids{1, i, 2}, generate);
    alone.text();
    EXPECT_EQ(streams[static_cast<size_t>(i)].ids(), alone.ids());
    expect_vectors(tasks[static_cast<size_t>(i)].get(), expected);
  }
}

}  // namespace
}  // namespace kvik
