#include <cmath>
#include <gmock/gmock.h>

#include "engine/speech/timed_text.h"
#include "sample/timestamps.h"

// Tokens below 4 are text, 4 ends it, 5 means no timestamps, 6 to 11 are the times 0 to 5.
namespace kvik::sample {
namespace {

using Ids = std::vector<TokenId>;
using testing::ElementsAre;

constexpr TimestampRules kRules{.first = 6, .end = 4, .max_initial_index = {}};

Ids allowed_after(const Ids& generated, std::vector<float> logits = std::vector<float>(12, 0.0f), const TimestampRules& rules = kRules) {
  apply_timestamp_rules(logits, generated, rules);
  Ids allowed;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] != -INFINITY) allowed.push_back(static_cast<TokenId>(i));
  }
  return allowed;
}

// Text so likely that times are not taken for being likelier together.
std::vector<float> likely_text() { return {9, 9, 9, 9, 9, 9, 0, 0, 0, 0, 0, 0}; }

TEST(Timestamps, AWindowBeginsWithATimestamp) {
  EXPECT_THAT(allowed_after({}), ElementsAre(6, 7, 8, 9, 10, 11));
  TimestampRules rules = kRules;
  rules.max_initial_index = 2;
  EXPECT_THAT(allowed_after({}, likely_text(), rules), ElementsAre(6, 7, 8));
}

TEST(Timestamps, TextFollowsTheFirstTimestamp) { EXPECT_THAT(allowed_after({7}), ElementsAre(0, 1, 2, 3, 4)); }

TEST(Timestamps, ATextEndsAfterItBegan) { EXPECT_THAT(allowed_after({7, 0}, likely_text()), ElementsAre(0, 1, 2, 3, 4, 8, 9, 10, 11)); }

TEST(Timestamps, ATimestampOrTheEndFollowsTheEndOfAText) {
  std::vector<float> end_is_likely(12, 0.0f);
  end_is_likely[4] = 9;
  EXPECT_THAT(allowed_after({7, 0, 9}, end_is_likely), ElementsAre(4, 9, 10, 11));
}

TEST(Timestamps, APairIsFollowedByText) { EXPECT_THAT(allowed_after({7, 0, 9, 9}, likely_text()), ElementsAre(0, 1, 2, 3, 4)); }

TEST(Timestamps, ATimestampIsChosenIfTimestampsTogetherAreLikelier) {
  EXPECT_THAT(allowed_after({6, 0}, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), ElementsAre(7, 8, 9, 10, 11));  // log 5 > 1
  EXPECT_THAT(allowed_after({6, 0}, {2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), ElementsAre(0, 1, 2, 3, 4, 7, 8, 9, 10, 11));
}

TEST(Timestamps, AVocabularyWithoutTimestampsIsUnchanged) { EXPECT_EQ(allowed_after({}, {0, 0, 0}).size(), 3u); }

engine::TimedWindow cut(const Ids& ids) { return engine::cut_at_times(ids, kRules, 0.5, 2.5); }

TEST(Timestamps, PairsCutAWindowAndTheNextBeginsAtTheLast) {
  const engine::TimedWindow window = cut({6, 0, 1, 8, 8, 2, 10, 10, 3});
  ASSERT_EQ(window.texts.size(), 2u);
  EXPECT_THAT(window.texts[0].ids, ElementsAre(6, 0, 1, 8));
  EXPECT_EQ(window.texts[0].start_s, 0);
  EXPECT_EQ(window.texts[0].end_s, 1);
  EXPECT_THAT(window.texts[1].ids, ElementsAre(8, 2, 10));
  EXPECT_EQ(window.texts[1].end_s, 2);
  EXPECT_EQ(window.advance_s, 2);  // 3 is unfinished: the next window transcribes it again
}

TEST(Timestamps, ASingleTimeAtTheEndMeansThatNothingFollows) {
  const engine::TimedWindow window = cut({6, 0, 8, 8, 2, 9});
  ASSERT_EQ(window.texts.size(), 2u);
  EXPECT_THAT(window.texts[1].ids, ElementsAre(8, 2, 9));
  EXPECT_EQ(window.texts[1].end_s, 1.5);
  EXPECT_EQ(window.advance_s, 2.5);
}

TEST(Timestamps, WithoutAPairTheWindowIsOneText) {
  EXPECT_EQ(cut({7, 0, 1, 9}).texts[0].end_s, 1.5);
  EXPECT_EQ(cut({6, 0, 1}).texts[0].end_s, 2.5);
  EXPECT_EQ(cut({6, 0, 1}).advance_s, 2.5);
  EXPECT_TRUE(cut({}).texts.empty());
}

}  // namespace
}  // namespace kvik::sample
