#include <fstream>
#include <gmock/gmock.h>

#include "kvik/kvik.h"
#include "support/paths.h"

namespace kvik {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string saved_fable_folder() { return (testing_support::source_root() / "models" / "fable").string(); }
std::string form(const std::string& name) { return (testing_support::fixtures() / "forms" / name).string(); }

Model native(KvStorage kv = KvStorage::kAuto) { return Model::load(saved_fable_folder(), {.backend = BackendChoice::kNative, .kv = kv}); }

std::vector<TokenId> some_tokens(int n, int vocab) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back((i * 7919 + 3) % vocab);
  return tokens;
}

std::vector<float> logits_of(Session& session) {
  if (session.length() == 0) return {};
  return {session.logits().begin(), session.logits().end()};
}

class SavedSession : public testing::Test {
 protected:
  testing_support::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "chat.kv";
};

// Lengths around the boundaries of pages; a second model simulates a second process.
TEST_F(SavedSession, ContinuesWithTheSameBits) {
  for (const KvStorage kv : {KvStorage::kF32, KvStorage::kF16, KvStorage::kQ8}) {
    const Model model = native(kv), other = native(kv);
    for (const int length : {0, 1, 31, 32, 33, 70}) {
      Session stayed = model.session();
      ASSERT_EQ(stayed.append(some_tokens(length, model.vocab_size())), AppendStatus::kDone);
      stayed.save(file_);
      Session back = other.load_session(file_);
      ASSERT_EQ(back.length(), length);
      EXPECT_EQ(logits_of(back), logits_of(stayed)) << length;
      for (const TokenId token : some_tokens(5, model.vocab_size())) {
        ASSERT_EQ(stayed.append(token), AppendStatus::kDone);
        ASSERT_EQ(back.append(token), AppendStatus::kDone);
        EXPECT_EQ(logits_of(back), logits_of(stayed)) << length;
      }
    }
  }
}

TEST_F(SavedSession, ARewoundSessionIsSavedAsRewound) {
  const Model model = native();
  const std::vector<TokenId> tokens = some_tokens(40, model.vocab_size());
  Session plain = model.session(), rewound = model.session();
  ASSERT_EQ(plain.append(std::span(tokens).first(10)), AppendStatus::kDone);
  ASSERT_EQ(rewound.append(tokens), AppendStatus::kDone);
  rewound.rewind(10);
  rewound.save(file_);
  Session back = model.load_session(file_);
  EXPECT_EQ(logits_of(back), logits_of(plain));
}

// Pages are used again, and the rest of the last one holds what another session left there.
TEST_F(SavedSession, HoldsNothingOfOtherSessions) {
  const Model model = native(), fresh = native();
  {
    Session another = model.session();
    ASSERT_EQ(another.append(some_tokens(64, model.vocab_size())), AppendStatus::kDone);
  }
  const auto bytes_of = [&](const Model& of) {
    Session session = of.session();
    EXPECT_EQ(session.append(some_tokens(5, of.vocab_size())), AppendStatus::kDone);
    session.save(file_);
    std::ifstream stream(file_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  EXPECT_EQ(bytes_of(model), bytes_of(fresh));
}

TEST_F(SavedSession, ContinuesItsRandomNumbers) {
  const Model model = native();
  const Sampling hot{.temperature = 1.5, .seed = 11};
  Session stayed = model.session();
  ASSERT_EQ(stayed.append(some_tokens(6, model.vocab_size())), AppendStatus::kDone);
  stayed.sample(hot);
  stayed.save(file_);
  Session back = model.load_session(file_);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(back.sample(hot), stayed.sample(hot));
}

TEST_F(SavedSession, RecurrentStatesAreSavedToo) {
  for (const char* name : {"recurrent", "hybrid-conv", "fixed-position", "delta"}) {
    for (const BackendChoice backend : {BackendChoice::kNative, BackendChoice::kReference}) {
      const Model model = Model::load(form(name), {.backend = backend});
      Session stayed = model.session();
      ASSERT_EQ(stayed.append(some_tokens(7, model.vocab_size())), AppendStatus::kDone);
      stayed.save(file_);
      Session back = model.load_session(file_);
      EXPECT_EQ(logits_of(back), logits_of(stayed)) << name;
      ASSERT_EQ(stayed.append(1), AppendStatus::kDone);
      ASSERT_EQ(back.append(1), AppendStatus::kDone);
      EXPECT_EQ(logits_of(back), logits_of(stayed)) << name;
    }
  }
}

TEST_F(SavedSession, BelongsToItsModelAndTheWayItWasLoaded) {
  const Model model = native(KvStorage::kF32);
  Session session = model.session();
  ASSERT_EQ(session.append(some_tokens(6, model.vocab_size())), AppendStatus::kDone);
  session.save(file_);
  const Model other = Model::load(form("plain"), {.backend = BackendChoice::kNative});
  EXPECT_THAT([&] { other.load_session(file_); }, ThrowsMessage<Error>(HasSubstr("saved with another model")));
  EXPECT_THAT([&] { native(KvStorage::kF16).load_session(file_); }, ThrowsMessage<Error>(HasSubstr("cache f32")));
  const Model reference = Model::load(saved_fable_folder(), {.backend = BackendChoice::kReference});
  EXPECT_THAT([&] { reference.load_session(file_); }, ThrowsMessage<Error>(HasSubstr("'states of the graph'")));
  const Model small = Model::load(saved_fable_folder(), {.backend = BackendChoice::kNative, .kv = KvStorage::kF32, .context = 4});
  EXPECT_THAT([&] { small.load_session(file_); }, ThrowsMessage<Error>(HasSubstr("the context holds 4")));
}

}  // namespace
}  // namespace kvik
