// Calls that a device starts before it is asked for them change no result.
#include <array>
#include <gmock/gmock.h>
#include <random>

#include "laws/on_device.h"

namespace kvik::testing_support {
namespace {

// Sequences on a backend, which continue with their largest logits or otherwise.
class Player {
 public:
  Player(const std::filesystem::path& folder, bool runs_ahead, size_t kv_bytes = 0)
      : device_(std::make_shared<HostDevice>(HostDevice::Options{.late = true})),
        backend_(open_on(device_, folder, {.kv_bytes = kv_bytes, .runs_ahead = runs_ahead})) {}

  struct Sequence {
    std::unique_ptr<backend::Cache> cache;
    std::vector<TokenId> tokens;
    TokenId largest = 0;
  };

  HostDevice& device() { return *device_; }
  int vocab() const { return backend_->traits().vocab; }
  int most_positions() const { return backend_->traits().max_positions; }
  bool can_rewind() const { return backend_->traits().can_rewind; }
  // For a few tokens.
  bool has_room(std::span<const size_t> which) const {
    return std::ranges::all_of(which, [&](size_t i) { return static_cast<int>(sequences_[i].tokens.size()) + 4 < most_positions(); });
  }
  std::vector<Sequence>& sequences() { return sequences_; }

  void add(std::span<const TokenId> prompt) {
    sequences_.push_back({backend_->new_cache(), {}, 0});
    append(sequences_.size() - 1, prompt);
  }
  void append(size_t i, std::span<const TokenId> tokens) {
    rows_.clear();
    Sequence& s = sequences_[i];
    for (const TokenId token : tokens) {
      rows_.push_back({token, static_cast<int>(s.tokens.size()), 0, false, -1, false, 1});
      s.tokens.push_back(token);
    }
    rows_.back().wants_logits = true;
    backend::Cache* const caches[] = {s.cache.get()};
    run(caches);
    s.largest = largest(0).id;
  }
  // One token for each of these sequences; negative: the largest.
  void step(std::span<const size_t> which, std::span<const TokenId> tokens) {
    rows_.clear();
    std::vector<backend::Cache*> caches;
    for (size_t i = 0; i < which.size(); ++i) {
      Sequence& s = sequences_[which[i]];
      const TokenId token = tokens[i] < 0 ? s.largest : tokens[i];
      rows_.push_back({token, static_cast<int>(s.tokens.size()), static_cast<int>(i), true, -1, false, 1});
      s.tokens.push_back(token);
      caches.push_back(s.cache.get());
    }
    run(caches);
    for (size_t i = 0; i < which.size(); ++i) sequences_[which[i]].largest = largest(static_cast<int>(i)).id;
  }
  void fork(size_t i) {
    const Sequence& s = sequences_[i];
    sequences_.push_back({backend_->fork(*s.cache), s.tokens, s.largest});
  }
  void rewind(size_t i, size_t length) {
    sequences_[i].tokens.resize(length);
    backend_->rewind(*sequences_[i].cache, static_cast<int>(length));
    sequences_[i].largest = 0;
  }
  // Frees sequence `removed` and replaces it with a copy of sequence i, restored from its contents.
  void restore_in_place_of(size_t i, size_t removed) {
    const std::vector<Tensor> contents = backend_->contents(*sequences_[i].cache);
    const std::vector<TokenId> tokens = sequences_[i].tokens;
    const TokenId largest = sequences_[i].largest;
    sequences_[removed].cache = nullptr;
    sequences_[removed] = {backend_->restore(tokens, contents), tokens, largest};
  }
  TokenLogit largest(int row) const {
    if (const std::span<const TokenLogit> candidates = logits().candidates(row); !candidates.empty()) return candidates.front();
    const std::span<const float> all = logits().row(row);
    const auto found = std::ranges::max_element(all);
    return {*found, static_cast<TokenId>(found - all.begin())};
  }
  size_t page_bytes() {
    add(synthetic_ids(1, vocab()));
    return sequences_.back().cache->size_bytes();
  }
  // Turns sequence i into a copy of another one at the same page address: its page is freed, then reused by the restored copy.
  void rewrite(size_t i, size_t other) {
    const Sequence& from = sequences_[other];
    const std::vector<Tensor> contents = backend_->contents(*from.cache);
    backend_->fork_into(*from.cache, sequences_[i].cache);
    const std::unique_ptr<backend::Cache> restored = backend_->restore(from.tokens, contents);
    backend_->fork_into(*restored, sequences_[i].cache);
    sequences_[i].tokens = from.tokens;
  }
  // The last call's.
  const backend::Logits& logits() const { return buffers_[n_calls_ % 2]; }

 private:
  void run(std::span<backend::Cache* const> caches) {
    ++n_calls_;
    if (backend_->run(rows_, caches, buffers_[n_calls_ % 2]) != backend::RunStatus::kDone) throw Error(Code::kTooLarge, "no room");
  }

  std::shared_ptr<HostDevice> device_;
  BackendPtr backend_;
  std::vector<Sequence> sequences_;
  std::vector<backend::Row> rows_;
  backend::Logits buffers_[2];  // in turn, as the decode loop uses them
  size_t n_calls_ = 0;
};

void expect_equal(const Player& ahead, const Player& plain, bool whole, const std::string& when) {
  ASSERT_EQ(ahead.logits().n_rows(), plain.logits().n_rows()) << when;
  for (int i = 0; i < plain.logits().n_rows(); ++i) {
    const TokenLogit a = ahead.largest(i), b = plain.largest(i);
    ASSERT_TRUE(a.id == b.id && same_bits({&a.logit, 1}, {&b.logit, 1})) << when << ", row " << i;
    if (!whole) continue;
    ASSERT_TRUE(same_bits(ahead.logits().row(i), plain.logits().row(i))) << when << ", row " << i;
  }
}

using Greedy = std::vector<TokenId>;

TEST(RunAhead, QueuesTheNextStepBehindTheOneThatIsWaitedFor) {
  Player player(form("plain"), true);
  player.add(synthetic_ids(5, player.vocab()));
  const size_t one[] = {0};
  for (int i = 0; i < 8; ++i) player.step(one, Greedy{-1});
  const int n_steps = player.device().n_steps();
  const HostDevice::Calls before = player.device().calls();
  player.step(one, Greedy{-1});
  const int n_executed = player.device().n_steps() - n_steps;
  EXPECT_EQ(player.device().calls().replays - before.replays, 1);
  player.device().wait();  // executes what was started ahead
  EXPECT_EQ(player.device().n_steps() - n_steps, 2 * n_executed);
}

TEST(RunAhead, IsPredictedOnlyForSequencesThatContinueWithTheirLargestLogits) {
  Player player(form("plain"), true);
  player.add(synthetic_ids(5, player.vocab()));
  const size_t one[] = {0};
  for (int i = 0; i < 12; ++i) {
    const HostDevice::Calls before = player.device().calls();
    player.step(one, Greedy{(player.sequences()[0].largest + 1) % player.vocab()});
    EXPECT_EQ(player.device().calls().replays - before.replays, 1) << i;
  }
}

// A device that runs ahead writes after the ends of sequences, which may be forked, rewound, closed or restored in the meantime.
class RunAheadLaw : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(RunAheadLaw, ChangesNoLogitWhateverHappensToTheSequences) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Player ahead(GetParam(), true), plain(GetParam(), false);
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    const auto both = [&](const auto& fn) { fn(ahead), fn(plain); };
    const int n_prompt = plain.most_positions() > 64 ? 27 : 4;  // the end of a page is near
    for (int i = 0; i < 2; ++i) both([&](Player& p) { p.add(synthetic_ids(n_prompt + i, p.vocab(), i)); });
    for (int round = 0; round < 16 && !testing::Test::HasFatalFailure(); ++round) {
      const size_t n = plain.sequences().size(), chosen = below(n);
      switch (below(plain.can_rewind() ? 6 : 2)) {
        case 0:
          both([&](Player& p) {
            if (p.has_room(std::array{chosen})) p.append(chosen, synthetic_ids(1 + round % 3, p.vocab(), round));
          });
          break;
        case 1: break;
        case 2: both([&](Player& p) { p.fork(chosen); }); break;
        case 3: {
          const size_t length = plain.sequences()[chosen].tokens.size(), by = std::min<size_t>(length - 1, below(4));
          both([&](Player& p) { p.rewind(chosen, length - by); });
          break;
        }
        case 4: both([&](Player& p) { p.restore_in_place_of(chosen, (chosen + 1) % n); }); break;
        default:
          both([&](Player& p) {
            if (n > 2) p.sequences().erase(p.sequences().begin() + static_cast<ptrdiff_t>(chosen));
          });
      }
      std::vector<size_t> which;
      for (size_t i = 0; i < plain.sequences().size(); ++i)
        if (which.empty() || below(3) > 0) which.push_back(i);
      for (size_t step = below(9); step > 0 && plain.has_room(which); --step) {
        Greedy tokens(which.size(), -1);
        if (below(12) == 0) tokens[below(tokens.size())] = 1;
        both([&](Player& p) { p.step(which, tokens); });
        expect_equal(ahead, plain, below(8) == 0, fmt::format("round {}", round));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, RunAheadLaw, testing::Values(form("plain"), form("recurrent"), fixtures() / "zoo" / "small-merged"));

// A sequence whose page is at the same address, with the same length and the predicted token, but with other contents.
TEST(RunAhead, IsAbandonedIfPagesWereWritten) {
  Player ahead(form("plain"), true), plain(form("plain"), false);
  const size_t first[] = {0};
  for (Player* p : {&ahead, &plain}) {
    p->add(synthetic_ids(9, p->vocab(), 0));
    p->add(synthetic_ids(14, p->vocab(), 1));
    for (int i = 0; i < 5; ++i) p->step(first, Greedy{-1});
    const TokenId largest = p->sequences()[0].largest;
    p->rewrite(0, 1);
    p->step(first, Greedy{largest});
  }
  expect_equal(ahead, plain, true, "rewritten");
}

TEST(RunAhead, IsWaitedForBeforeAnotherCallFillsItsMemory) {
  Player player(form("plain"), true);
  player.add(synthetic_ids(5, player.vocab()));
  const size_t one[] = {0};
  for (int i = 0; i < 8; ++i) player.step(one, Greedy{-1});
  const HostDevice::Calls before = player.device().calls();
  player.step(one, Greedy{(player.sequences()[0].largest + 1) % player.vocab()});
  EXPECT_EQ(player.device().calls().waits - before.waits, 2);
}

TEST(RunAhead, NeedsNoMemoryThatTheBudgetDoesNotHave) {
  const std::filesystem::path folder = fixtures() / "zoo" / "small-merged";
  const size_t page_bytes = Player(folder, false).page_bytes();
  for (size_t n_pages = 1; n_pages <= 3; ++n_pages) {
    Player ahead(folder, true, n_pages * page_bytes), plain(folder, false, n_pages * page_bytes);
    const size_t one[] = {0};
    const auto steps_until_full = [&](Player& p) {
      p.add(synthetic_ids(20, p.vocab()));
      int n = 0;
      try {
        for (; n < 100; ++n) p.step(one, Greedy{-1});
      } catch (const Error&) {}
      return n;
    };
    const int n_steps = steps_until_full(plain);
    EXPECT_EQ(n_steps, static_cast<int>(n_pages) * 32 - 20) << n_pages << " pages";
    EXPECT_EQ(steps_until_full(ahead), n_steps) << n_pages << " pages";
  }
}

}  // namespace
}  // namespace kvik::testing_support
