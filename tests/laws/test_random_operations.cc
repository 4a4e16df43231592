// Random operations on sequences that share pages, a prefix tree and a budget, from two threads, against a simple model: the tokens that
// each sequence should hold, whose logits are computed from nothing by a backend that shares nothing. Equal bits.
//
//   KVIK_OPERATIONS=100000 KVIK_SEED=7 build/test-laws --gtest_filter='*RandomOperations*'
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "backend/native/graph/outcome.h"
#include "backend/native/native_backend.h"
#include "backend/native/stages.h"
#include "engine/decoder.h"
#include "engine/draft.h"
#include "engine/lookup.h"
#include "engine/sample_strategy.h"
#include "engine/tree.h"
#include "laws/native.h"

namespace kvik::testing_support {
namespace {

using engine::Decoder;
using engine::Sequence;
using Tokens = std::vector<TokenId>;

struct CacheVariant {
  std::string name;
  int page_panels = 1;
  int64_t window = 0;       // of every attention; 0: as the model has it
  size_t budget_pages = 0;  // 0: no limit
};

size_t from_environment(const char* name, size_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

// A plan is data, so that a test can narrow what its attentions see.
std::shared_ptr<const native::Stages> stages_with_window(const analysis::Signature& signature, int64_t window) {
  native::Stages stages = native::take(native::compile_stages(signature, {}));
  auto plan = std::make_shared<native::Plan>(*stages.decoder);
  for (native::AttentionSpec& attend : plan->attends) attend.window = window;
  stages.decoder = std::move(plan);
  return std::make_shared<native::Stages>(std::move(stages));
}

BackendPtr open(const CacheVariant& variant) {
  const analysis::Signature signature = analysis::analyze(fixtures() / "zoo" / "qwen2");
  backend::NativeOptions options{.n_threads = 2, .page_panels = variant.page_panels};
  options.stages = stages_with_window(signature, variant.window);
  const size_t page_bytes = 32 * 2 * 2 * 2 * 16 * sizeof(float) * static_cast<size_t>(variant.page_panels);  // 2 layers, 2 heads of 16
  options.kv_bytes = variant.budget_pages * page_bytes;
  return backend::make_native_backend(signature, options, {});
}

// Logits of token sequences, computed one by one from nothing.
class Oracle {
 public:
  explicit Oracle(const CacheVariant& variant) : backend_(open({.name = "", .window = variant.window})) {}

  bool agrees(const Tokens& tokens, std::span<const float> logits) {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = known_.try_emplace(tokens);
    if (is_new) {
      if (known_.size() > 20000) return known_.clear(), true;
      Sequence sequence(backend_, 0);
      if (sequence.append(tokens) != AppendStatus::kDone) return false;
      found->second.assign(sequence.logits().begin(), sequence.logits().end());
    }
    return std::memcmp(found->second.data(), logits.data(), logits.size_bytes()) == 0;
  }

  // The tokens and the n likeliest ones after them.
  Tokens continued(Tokens tokens, size_t n) {
    const std::lock_guard lock(mutex_);
    Sequence sequence(backend_, 0);
    EXPECT_EQ(sequence.append(tokens), AppendStatus::kDone);
    for (; n > 0; --n) {
      tokens.push_back(static_cast<TokenId>(std::ranges::max_element(sequence.logits()) - sequence.logits().begin()));
      EXPECT_EQ(sequence.append({&tokens.back(), 1}), AppendStatus::kDone);
    }
    return tokens;
  }

 private:
  BackendPtr backend_;
  std::mutex mutex_;
  std::map<Tokens, LogitsRow> known_;
};

// What one thread does to its own sequences.
class Worker {
 public:
  Worker(std::shared_ptr<Decoder> decoder, Oracle& oracle, unsigned seed) : decoder_(std::move(decoder)), oracle_(oracle), random_(seed) {}

  void operate(size_t n) {
    for (size_t i = 0; i < n && !testing::Test::HasFailure(); ++i) {
      const unsigned what = below(100);
      if (held_.empty() || (what < 8 && held_.size() < kMostHeld)) {
        begin();
      } else if (what < 45) {
        append();
      } else if (what < 58) {
        fork();
      } else if (what < 70) {
        rewind();
      } else if (what < 80) {
        tree();
      } else if (what < 86) {
        save_and_load();
      } else if (what < 90) {
        step_all();
      } else if (what < 95) {
        generate();
      } else {
        held_.erase(held_.begin() + below(held_.size()));
      }
      if (!held_.empty() && below(4) == 0) check(held_[below(held_.size())]);
    }
  }

  size_t n_no_memory = 0, n_kept = 0, n_checked = 0;
  int n_proposed = 0, n_accepted = 0;

 private:
  static constexpr size_t kMostHeld = 6;
  static constexpr size_t kLongest = 100;

  struct Held {
    Sequence sequence;
    Tokens tokens;
  };

  unsigned below(size_t n) { return static_cast<unsigned>(random_() % n); }
  TokenId token() { return static_cast<TokenId>(5 + below(2)); }

  void begin() {
    held_.push_back({Sequence(decoder_, 0), {}});
    held_.back().sequence.reuse_prefixes();
    // Often a beginning that others have: a few fixed texts.
    Tokens text = synthetic_ids(static_cast<int>(1 + below(70)), 400, static_cast<int>(below(2)));
    feed(held_.back(), text);
  }

  void feed(Held& held, const Tokens& more) {
    if (held.tokens.size() + more.size() > kLongest) return;
    const AppendStatus status = held.sequence.append(more);
    if (status == AppendStatus::kDone) held.tokens.insert(held.tokens.end(), more.begin(), more.end());
    if (status == AppendStatus::kNoMemory) make_room();
  }

  // What a caller does after kNoMemory.
  void make_room() {
    ++n_no_memory;
    if (held_.size() > 1) held_.erase(held_.begin());
  }

  void append() {
    Tokens more;
    for (unsigned n = below(3) == 0 ? 1 + below(40) : 1; n > 0; --n) more.push_back(token());
    feed(held_[below(held_.size())], more);
  }

  void fork() {
    if (held_.size() >= kMostHeld) return;
    const size_t from = below(held_.size());
    held_.push_back({held_[from].sequence.fork(), held_[from].tokens});
  }

  void rewind() {
    Held& held = held_[below(held_.size())];
    held.tokens.resize(below(held.tokens.size() + 1));
    held.sequence.rewind(static_cast<int>(held.tokens.size()));
  }

  void tree() {
    Held& held = held_[below(held_.size())];
    if (held.tokens.size() + 12 > kLongest) return;
    Tokens tokens;
    std::vector<int> parents;
    for (unsigned n = 1 + below(12); n > 0; --n) {
      tokens.push_back(token());
      parents.push_back(static_cast<int>(below(parents.size() + 1)) - 1);
    }
    engine::Tree tree;
    const AppendStatus status = tree.compute(held.sequence, tokens, parents);
    if (status == AppendStatus::kNoMemory) return make_room();
    const int node = static_cast<int>(below(tokens.size()));
    Tokens path;
    for (int at = node; at >= 0; at = parents[static_cast<size_t>(at)]) path.insert(path.begin(), tokens[static_cast<size_t>(at)]);
    path.insert(path.begin(), held.tokens.begin(), held.tokens.end());
    EXPECT_TRUE(oracle_.agrees(path, tree.logits(node))) << "a node of a tree";
    if (below(2) == 0) return;
    tree.keep(node, held.sequence);
    held.tokens = path;
    ++n_kept;
  }

  void save_and_load() {
    Held& held = held_[below(held_.size())];
    try {
      const std::vector<Tensor> contents = held.sequence.contents();
      Sequence back = Sequence::restored(decoder_, 0, held.tokens, contents, {});
      back.reuse_prefixes();
      held.sequence = std::move(back);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kTooLarge) << e.what();
      make_room();
    }
  }

  void step_all() {
    std::vector<Sequence*> sequences;
    Tokens tokens;
    for (Held& held : held_) {
      if (held.tokens.size() + 1 > kLongest) return;
      sequences.push_back(&held.sequence);
      tokens.push_back(token());
    }
    const AppendStatus status = Sequence::append_each(sequences, tokens);
    for (size_t i = 0; status == AppendStatus::kDone && i < held_.size(); ++i) held_[i].tokens.push_back(tokens[i]);
    if (status == AppendStatus::kNoMemory) make_room();
  }

  std::unique_ptr<engine::Speculation> speculation(size_t max_length) {
    std::vector<std::unique_ptr<engine::Proposer>> proposers;
    proposers.push_back(std::make_unique<engine::LookupProposer>(decoder_->shared_backend(), max_length));
    // The model itself as its draft, with sequences among all others.
    if (below(3) == 0) proposers.push_back(std::make_unique<engine::DraftProposer>(decoder_, 0, decoder_->backend().traits().vocab, true));
    return std::make_unique<engine::Speculation>(
        std::move(proposers), engine::SpeculationOptions{.max_length = max_length, .most_tokens = 1 + below(15), .adapt = below(8) == 0});
  }

  // A few tokens, many of them ahead of their turn.
  void generate() {
    const size_t which = below(held_.size());
    const size_t n_before = held_[which].tokens.size(), n_new = 1 + below(20);
    if (n_before == 0 || n_before + n_new > kLongest) return;
    const size_t max_length = n_before + n_new + 1;  // the last token is chosen and not computed
    const auto sampler =
        std::make_shared<sample::Sampler>(Sampling{}, sample::TokenRules{static_cast<size_t>(decoder_->backend().traits().vocab), {}, {}});
    engine::SampleOptions options{.stop = {{}, max_length, nullptr}, .prompt_length = n_before, .scores = false};
    engine::Stream stream(std::move(held_[which].sequence), std::make_unique<engine::SampleStrategy>(sampler, options));
    stream.speculation = speculation(max_length);
    engine::Stream* const alone[] = {&stream};
    engine::StepStatus status = engine::StepStatus::kWorked;
    while (!stream.finish && status == engine::StepStatus::kWorked) status = decoder_->step(alone);
    n_proposed += stream.timing.n_proposed;
    n_accepted += stream.timing.n_accepted;
    Sequence& sequence = stream.branches.front();
    sequence.drop_pending();
    const Tokens expected = oracle_.continued(held_[which].tokens, n_new);
    held_[which].tokens.assign(sequence.tokens().begin(), sequence.tokens().end());
    ASSERT_GE(held_[which].tokens.size(), status == engine::StepStatus::kWorked ? expected.size() : n_before);
    EXPECT_TRUE(std::equal(held_[which].tokens.begin(), held_[which].tokens.end(), expected.begin())) << "speculation";
    held_[which].sequence = std::move(sequence);
    if (status == engine::StepStatus::kNoMemory) make_room();
  }

  void check(Held& held) {
    ASSERT_EQ(Tokens(held.sequence.tokens().begin(), held.sequence.tokens().end()), held.tokens);
    if (held.tokens.empty()) return;
    ++n_checked;
    try {
      EXPECT_TRUE(oracle_.agrees(held.tokens, held.sequence.logits())) << held.tokens.size() << " tokens";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kTooLarge) << e.what();  // logits after a rewind need a page
      make_room();
    }
  }

  std::shared_ptr<Decoder> decoder_;
  Oracle& oracle_;
  std::mt19937 random_;
  std::vector<Held> held_;
};

class RandomOperations : public testing::TestWithParam<CacheVariant> {};

TEST_P(RandomOperations, LoseAndMixNothing) {
  const size_t n = from_environment("KVIK_OPERATIONS", 3000);
  const auto seed = static_cast<unsigned>(from_environment("KVIK_SEED", 1));
  SCOPED_TRACE(fmt::format("KVIK_OPERATIONS={} KVIK_SEED={}", n, seed));
  const BackendPtr backend = open(GetParam());
  const auto decoder = std::make_shared<Decoder>(backend);
  Oracle oracle(GetParam());
  {
    Worker one(decoder, oracle, seed), two(decoder, oracle, seed + 1000);
    std::thread other([&] { two.operate(n / 2); });
    one.operate(n - n / 2);
    other.join();
    EXPECT_GT(one.n_checked + two.n_checked, n / 8);
    EXPECT_GT(one.n_kept + two.n_kept, n / 100);
    EXPECT_GT(one.n_accepted + two.n_accepted, static_cast<int>(n) / 100);
    EXPECT_GT(one.n_proposed + two.n_proposed, one.n_accepted + two.n_accepted);
    EXPECT_EQ(one.n_no_memory + two.n_no_memory > 0, GetParam().budget_pages > 0);
  }
  const backend::CacheMemory memory = backend->cache_memory();
  EXPECT_GT(memory.reused_positions, 0);
  EXPECT_EQ(memory.used_bytes, memory.idle_bytes) << "only the prefix tree holds pages";
  if (GetParam().budget_pages > 0) {
    EXPECT_GT(memory.evicted_positions, 0);
    EXPECT_LE(memory.allocated_bytes, memory.limit_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, RandomOperations,
                         testing::Values(CacheVariant{.name = "unbounded"}, CacheVariant{.name = "budget", .budget_pages = 20},
                                         CacheVariant{.name = "large_pages", .page_panels = 3, .budget_pages = 12},
                                         CacheVariant{.name = "window", .window = 40},
                                         CacheVariant{.name = "window_budget", .window = 40, .budget_pages = 16}),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace
}  // namespace kvik::testing_support
