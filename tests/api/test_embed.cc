#include <gmock/gmock.h>
#include <thread>

#include "kvik/kvik.h"
#include "support/paths.h"

namespace kvik {
namespace {

using Ids = std::vector<TokenId>;
using testing::HasSubstr;
using testing::ThrowsMessage;

Model encoder() {
  static const Model kModel = Model::load((testing_support::fixtures() / "zoo" / "bert").string(), {.threads = 2});
  return kModel;
}

Model decoder_without_head() { return Model::load((testing_support::fixtures() / "forms" / "hidden-states").string()); }

// Of unequal lengths; the longest fill a run by themselves.
std::vector<Ids> texts() {
  std::vector<Ids> all;
  for (const int n : {5, 64, 1, 17, 64, 64, 33, 2, 64, 64, 64, 64, 64, 9}) {
    all.emplace_back();
    for (int i = 0; i < n; ++i) all.back().push_back(static_cast<TokenId>((static_cast<int>(all.size()) * 31 + i * 7) % 320));
  }
  return all;
}

std::vector<std::vector<float>> values_of(const std::vector<Embedding>& embeddings) {
  std::vector<std::vector<float>> values;
  for (const Embedding& embedding : embeddings) values.push_back(embedding.values);
  return values;
}

TEST(Embed, ATextInABatchHasTheSameBitsAsAlone) {
  const std::vector<Ids> all = texts();
  const std::vector<Embedding> together = encoder().embed(all, {.pooling = "mean"});
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<Embedding> alone = encoder().embed({&all[i], 1}, {.pooling = "mean"});
    EXPECT_EQ(alone.front().values, together[i].values) << i;
    EXPECT_EQ(together[i].tokens, static_cast<int>(all[i].size()));
  }
}

TEST(HiddenStates, TheFirstRowIsTheClsVector) {
  const std::vector<Ids> all = texts();
  const std::vector<HiddenStates> states = encoder().hidden_states(all);
  const std::vector<Embedding> vectors = encoder().embed(all, {.pooling = "cls", .normalize = false});
  ASSERT_EQ(states.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(states[i].tokens, static_cast<int>(all[i].size()));
    EXPECT_EQ(std::vector<float>(states[i].values.get(), states[i].values.get() + states[i].size), vectors[i].values);
  }
  EXPECT_THROW(encoder().hidden_states(std::vector<Ids>{{}}), Error);
}

TEST(Embed, ThreadsThatShareAModelGetTheSameBits) {
  const std::vector<Ids> all = texts();
  const auto expected = values_of(encoder().embed(all, {.pooling = "mean"}));
  std::vector<std::vector<std::vector<float>>> found(4);
  {
    std::vector<std::jthread> threads;
    for (auto& one : found) threads.emplace_back([&one, &all] { one = values_of(encoder().embed(all, {.pooling = "mean"})); });
  }
  for (const auto& one : found) EXPECT_EQ(one, expected);
}

TEST(Embed, AModelReportsItsVectorSizeAndCapabilities) {
  EXPECT_TRUE(encoder().can_embed());
  EXPECT_FALSE(encoder().can_generate());
  EXPECT_EQ(encoder().embedding_size({.pooling = "mean"}), 64);
  EXPECT_EQ(encoder().embedding_size({.pooling = "cls+mean+max"}), 192);
  EXPECT_EQ(encoder().embedding_size({.pooling = "mean", .dimensions = 8}), 8);
  EXPECT_EQ(encoder().max_embedding_tokens(), 64);
  EXPECT_THAT([] { (void)encoder().embedding_size(); }, ThrowsMessage<Error>(HasSubstr("lasttoken")));
  EXPECT_THAT([] { (void)encoder().session(); }, ThrowsMessage<Error>(HasSubstr("use embed")));
  EXPECT_THAT([] { (void)encoder().translate("text"); }, ThrowsMessage<Error>(testing::_));
}

TEST(Embed, ALongTextOfACausalDecoderRunsInParts) {
  const Model model = decoder_without_head();
  Ids ids;
  for (int i = 0; i < model.max_positions(); ++i) ids.push_back(i % 50);
  std::vector<Ids> many(40, ids);  // more rows than one run has
  const std::vector<Embedding> all = model.embed(many, {.pooling = "lasttoken"});
  const Embedding alone = model.embed({&ids, 1}, {.pooling = "lasttoken"}).front();
  for (const Embedding& one : all) EXPECT_EQ(one.values, alone.values);
}

TEST(Embed, CancelledTextsHaveNoValues) {
  int n_polls = 0;
  const std::vector<Embedding> found = encoder().embed(texts(), {.pooling = "mean", .cancelled = [&] { return ++n_polls > 1; }});
  ASSERT_EQ(found.size(), texts().size());
  EXPECT_FALSE(found.front().values.empty());
  EXPECT_TRUE(found.back().values.empty());
}

}  // namespace
}  // namespace kvik
