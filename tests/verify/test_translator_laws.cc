// The laws of encoder-decoders hold on every test model, and a backend that breaks one is found out.
#include <gmock/gmock.h>

#include "engine/translators.h"
#include "kvik/error.h"
#include "verify/translator_laws.h"

namespace kvik::laws {
namespace {

using namespace engine;

Tensor as_source(const std::vector<int64_t>& ids) { return Tensor::of({static_cast<int64_t>(ids.size())}, ids); }

struct Asked {
  explicit Asked(const Loaded& model) {
    options.sources = {as_source({5, 9, 13, 7, 3, 2}), as_source({8, 2}), as_source({2, 3, 7, 13})};
    options.start = {model.config.decoder_start.value_or(0)};
    options.target = {11, 4, 23, 9, 31};
    options.sampler = model.sampler();
    options.beams = {.num_beams = 3, .max_length = 12, .eos_token_id = model.config.eos};
  }
  TranslatorLaws options;
};

std::vector<std::string> broken(const std::vector<Law>& results) {
  std::vector<std::string> names;
  for (const Law& law : results) {
    EXPECT_TRUE(law.cases > 0 || !law.holds) << law.name;
    if (!law.holds) names.push_back(law.name + " (" + law.detail + ")");
  }
  return names;
}

std::filesystem::path translator_form(const char* name) { return testing_support::fixtures() / "forms" / name; }

TEST(VerifyTranslator, EveryLawHoldsOnTextsOfUnequalLength) {
  for (const std::filesystem::path& folder :
       {translator_form("translator-pair"), translator_form("recurrent-translator"), testing_support::fixtures() / "zoo" / "marian"}) {
    const Loaded model = load(folder, false);
    Asked asked(model);
    const std::shared_ptr<backend::Backend> ort = testing_support::open_ort(folder);
    if (ort != nullptr) asked.options.peers = {{"reference = ort", ort, 1e-3}};
    const std::vector<Law> results = verify_translator(model.backend, asked.options);
    EXPECT_THAT(broken(results), testing::IsEmpty()) << folder;
    std::vector<std::string> names;
    for (const Law& law : results) names.push_back(law.name);
    EXPECT_THAT(names, testing::IsSupersetOf({"cached = uncached", "any split of the target", "forked = fresh", "batch = alone",
                                              "beam of width 1 = greedy", "encoder run once"}));
    if (ort != nullptr) { EXPECT_EQ(names.back(), "reference = ort"); }
  }
}

TEST(VerifyTranslator, EveryLawHoldsOnFeatures) {
  const Loaded model = load(translator_form("speech"), false);
  Asked asked(model);
  Tensor quiet = made_by_formula({8, 20});
  for (float& value : quiet.mutable_data<float>()) value *= 0.1f;
  asked.options.sources = {made_by_formula({8, 20}), quiet};
  EXPECT_THAT(broken(verify_translator(model.backend, asked.options)), testing::IsEmpty());
}

// Forwards everything, and does one thing wrong.
class FaultyTranslator : public backend::Backend {
 public:
  enum class Fault { kForgetsToFork, kEncodesTwice, kMixesBatches };
  FaultyTranslator(std::shared_ptr<backend::Backend> inner, Fault fault) : inner_(std::move(inner)), fault_(fault) {}

  const backend::Traits& traits() const override { return inner_->traits(); }
  int preferred_chunk() const override { return inner_->preferred_chunk(); }
  std::unique_ptr<backend::Cache> new_cache(std::shared_ptr<const backend::Source> source, int length) override {
    return inner_->new_cache(std::move(source), length);
  }
  bool can_continue(const backend::Cache& cache, int length) const override { return inner_->can_continue(cache, length); }
  std::unique_ptr<backend::Cache> fork(const backend::Cache& cache) override {
    if (fault_ == Fault::kForgetsToFork && cache.length() > 0) inner_->rewind(const_cast<backend::Cache&>(cache), cache.length() - 1);
    return inner_->fork(cache);
  }
  void rewind(backend::Cache& cache, int length) override { inner_->rewind(cache, length); }
  backend::RunStatus run(std::span<const backend::Row> rows, std::span<backend::Cache* const> caches, backend::Logits& logits) override {
    const backend::RunStatus status = inner_->run(rows, caches, logits);
    if (fault_ == Fault::kMixesBatches && logits.n_rows() > 1)
      std::copy(logits.row(0).begin(), logits.row(0).end(), logits.writable_row(1).begin());
    return status;
  }
  std::vector<Tensor> contents(const backend::Cache& cache) override { return inner_->contents(cache); }
  std::unique_ptr<backend::Cache> restore(std::span<const TokenId> tokens, std::span<const Tensor> contents) override {
    return inner_->restore(tokens, contents);
  }
  std::vector<std::shared_ptr<const backend::Source>> encode(std::span<const Tensor> inputs) override {
    if (fault_ == Fault::kEncodesTwice) inner_->encode(inputs);
    return inner_->encode(inputs);
  }
  backend::SourceWork source_work() const override { return inner_->source_work(); }

 private:
  std::shared_ptr<backend::Backend> inner_;
  Fault fault_;
};

TEST(VerifyTranslator, ABrokenBackendFailsTheLawItBreaks) {
  const Loaded model = load(translator_form("translator-pair"), false);
  const Asked asked(model);
  const auto found = [&](FaultyTranslator::Fault fault) {
    return broken(verify_translator(std::make_shared<FaultyTranslator>(model.backend, fault), asked.options));
  };
  EXPECT_THAT(found(FaultyTranslator::Fault::kForgetsToFork), testing::Contains(testing::StartsWith("forked = fresh")));
  EXPECT_THAT(found(FaultyTranslator::Fault::kEncodesTwice), testing::Contains(testing::StartsWith("encoder run once")));
  EXPECT_THAT(found(FaultyTranslator::Fault::kMixesBatches), testing::Contains(testing::StartsWith("batch = alone")));
}

TEST(VerifyTranslator, ATargetOfOneTokenIsAnError) {
  const Loaded model = load(translator_form("translator-pair"), false);
  Asked asked(model);
  asked.options.target = {1};
  EXPECT_THAT([&] { (void)verify_translator(model.backend, asked.options); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("a target of at least 2 tokens")));
}

}  // namespace
}  // namespace kvik::laws
