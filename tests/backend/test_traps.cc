// What broke the systems before us, each by name.
#include <gmock/gmock.h>
#include <set>

#include "analysis/signature.h"
#include "backend/graph/graph_backend.h"
#include "backend/reference/reference_backend.h"
#include "engine/generation_config.h"
#include "engine/sequence.h"
#include "kvik/error.h"
#include "support/models.h"

namespace kvik::backend {
namespace {

struct Seen {
  std::map<std::string, Dims> fed;
  std::vector<int64_t> mask, positions;
  Dims logits;
};

// Records the inputs of a file and passes them on.
class Watching final : public Executor {
 public:
  Watching(std::unique_ptr<Executor> inner, std::vector<Seen>& seen) : inner_(std::move(inner)), seen_(seen) {}

  ValuePtr from_host(Tensor tensor) override { return inner_->from_host(std::move(tensor)); }
  std::vector<ValuePtr> run(std::span<const NamedValue> inputs, std::span<const Wanted> outputs) override {
    Seen seen;
    for (const NamedValue& input : inputs) {
      const Tensor tensor = input.value->to_host();
      seen.fed[std::string(input.name)] = tensor.dims();
      if (input.name == "attention_mask") seen.mask.assign(tensor.data<int64_t>().begin(), tensor.data<int64_t>().end());
      if (input.name == "position_ids") seen.positions.assign(tensor.data<int64_t>().begin(), tensor.data<int64_t>().end());
    }
    const std::vector<ValuePtr> results = inner_->run(inputs, outputs);
    seen.logits = results.front()->dims();
    seen_.push_back(std::move(seen));
    return results;
  }

 private:
  std::unique_ptr<Executor> inner_;
  std::vector<Seen>& seen_;
};

std::shared_ptr<Backend> watched(const std::filesystem::path& folder, std::vector<Seen>& seen) {
  return std::make_shared<GraphBackend>(analysis::analyze(folder), Traits{.name = "watched"}, [&](const analysis::File& file) {
    return std::make_unique<Watching>(make_reference_executor(file), seen);
  });
}

const std::filesystem::path kZoo = testing_support::fixtures() / "zoo";
const std::filesystem::path kForms = testing_support::fixtures() / "forms";

TEST(Trap, AnEmptyPastHasLengthZero) {
  std::vector<Seen> seen;
  engine::Sequence sequence(watched(kZoo / "qwen2", seen), 0);
  const std::vector<TokenId> prompt = {5, 6, 7};
  ASSERT_EQ(sequence.append(prompt), AppendStatus::kDone);
  EXPECT_EQ(seen[0].fed.at("past_key_values.0.key")[2], 0);
}

TEST(Trap, TheMaskCoversPastAndPresentAndPositionsContinue) {
  std::vector<Seen> seen;
  engine::Sequence sequence(watched(kZoo / "qwen2", seen), 0);
  const std::vector<TokenId> prompt = {5, 6, 7};
  const TokenId next = 8;
  ASSERT_EQ(sequence.append(prompt), AppendStatus::kDone);
  ASSERT_EQ(sequence.append({&next, 1}), AppendStatus::kDone);
  EXPECT_EQ(seen[1].mask, std::vector<int64_t>(4, 1));
  EXPECT_EQ(seen[1].positions, std::vector<int64_t>{3});
}

TEST(Trap, EveryDeclaredInputIsFedAndNoOther) {
  for (const char* form : {"plain", "hand-names", "num-logits-to-keep", "fixed-scatter", "half-cache"}) {
    std::vector<Seen> seen;
    const analysis::Signature signature = analysis::analyze(kForms / form);
    engine::Sequence sequence(watched(kForms / form, seen), 0);
    const TokenId token = 5;
    ASSERT_EQ(sequence.append({&token, 1}), AppendStatus::kDone) << form;
    std::set<std::string> declared, fed;
    for (const analysis::Port& port : signature.later_step()->inputs) declared.insert(port.name);
    for (const auto& [name, dims] : seen.front().fed) fed.insert(name);
    EXPECT_EQ(fed, declared) << form;
  }
}

TEST(Trap, LogitsOfAWholePromptAreNotRequestedIfTheFileCanLimitThem) {
  std::vector<Seen> seen;
  engine::Sequence sequence(watched(kForms / "num-logits-to-keep", seen), 0);
  const std::vector<TokenId> prompt = {5, 6, 7, 8};
  ASSERT_EQ(sequence.append(prompt), AppendStatus::kDone);
  EXPECT_EQ(seen[0].logits[1], 1);
}

TEST(Trap, AFileForOneTokenAtATimeGetsOneTokenAtATime) {
  KVIK_NEEDS_SHARED();
  std::vector<Seen> seen;
  engine::Sequence sequence(watched(testing_support::shared() / "zoo" / "llama-old-pair", seen), 0);
  const std::vector<TokenId> prompt = {5, 6, 7}, more = {8, 9, 10};
  ASSERT_EQ(sequence.append(prompt), AppendStatus::kDone);
  seen.clear();
  ASSERT_EQ(sequence.append(more), AppendStatus::kDone);
  ASSERT_GE(seen.size(), 3u);  // after the probe
  for (size_t i = seen.size() - 3; i < seen.size(); ++i) EXPECT_EQ(seen[i].fed.at("input_ids"), (Dims{1, 1}));
}

TEST(Trap, SequencesOfUnequalLengthAreNeverPadded) {
  std::vector<Seen> seen;
  const std::shared_ptr<Backend> backend = watched(kZoo / "qwen2", seen);
  engine::Sequence one(backend, 0), two(backend, 0);
  const std::vector<TokenId> prompt = {5, 6, 7};
  ASSERT_EQ(one.append(prompt), AppendStatus::kDone);
  ASSERT_EQ(two.append({prompt.data(), 1}), AppendStatus::kDone);
  std::vector<engine::Sequence*> both = {&one, &two};
  const std::vector<TokenId> next = {8, 9};
  ASSERT_EQ(engine::Sequence::append_each(both, next), AppendStatus::kDone);
  for (const Seen& run : seen) EXPECT_THAT(run.mask, testing::Each(1));
}

TEST(Trap, GenerationStopsOnEveryEndToken) {
  KVIK_NEEDS_SHARED();
  const engine::GenerationConfig config = engine::read_generation_config(analysis::analyze(testing_support::shared() / "zoo" / "qwen3"));
  EXPECT_EQ(config.eos.size(), 2u);  // config.json has one, generation_config.json two
}

TEST(Trap, ARecurrentStateCannotBeRewoundButCanBeReset) {
  const std::shared_ptr<Backend> backend = testing_support::open_reference(kForms / "recurrent");
  EXPECT_FALSE(backend->traits().can_rewind);
  engine::Sequence sequence(backend, 0);
  const std::vector<TokenId> prompt = {5, 6, 7};
  ASSERT_EQ(sequence.append(prompt), AppendStatus::kDone);
  EXPECT_THROW(sequence.rewind(2), Error);
  EXPECT_EQ(sequence.length(), 3);
  sequence.rewind(0);
  EXPECT_EQ(sequence.append(prompt), AppendStatus::kDone);
}

}  // namespace
}  // namespace kvik::backend
