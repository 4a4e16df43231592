// The laws hold on models that are right, and the right law fails on models that are wrong.
#include <gmock/gmock.h>

#include "analysis/signature.h"
#include "backend/graph/graph_backend.h"
#include "backend/reference/reference_backend.h"
#include "kvik/error.h"
#include "kvik/verify.h"
#include "support/models.h"
#include "verify/decoder_laws.h"

namespace kvik::laws {
namespace {

using backend::Executor;
using backend::NamedValue;
using backend::ValuePtr;

const std::vector<TokenId> kPrompt = {3, 14, 15, 9, 26, 5, 35, 8};

std::vector<std::string> broken_laws(const std::vector<Law>& laws) {
  std::vector<std::string> names;
  for (const Law& law : laws) {
    EXPECT_GT(law.cases, 0) << law.name;
    if (!law.holds) names.push_back(law.name);
  }
  return names;
}

// A model with a fault: what it is fed is changed on the way in.
class Faulty final : public Executor {
 public:
  using Change = std::function<Tensor(std::string_view name, const Tensor&)>;
  Faulty(std::unique_ptr<Executor> inner, Change change) : inner_(std::move(inner)), change_(std::move(change)) {}

  ValuePtr from_host(Tensor tensor) override { return inner_->from_host(std::move(tensor)); }
  std::vector<ValuePtr> run(std::span<const NamedValue> inputs, std::span<const backend::Wanted> outputs) override {
    std::vector<NamedValue> changed;
    for (const NamedValue& input : inputs) changed.push_back({input.name, inner_->from_host(change_(input.name, input.value->to_host()))});
    return inner_->run(changed, outputs);
  }

 private:
  std::unique_ptr<Executor> inner_;
  Change change_;
};

std::shared_ptr<backend::Backend> faulty_model(const Faulty::Change& change, const char* folder = "qwen2") {
  backend::Traits traits;
  traits.name = "faulty";
  return std::make_shared<backend::GraphBackend>(
      analysis::analyze(testing_support::fixtures() / "zoo" / folder), traits,
      [&](const analysis::File& file) { return std::make_unique<Faulty>(backend::make_reference_executor(file), change); });
}

// The tolerance is the rounding of the formats that a file computes in; only files that quantize activations over all rows get more.
TEST(Verify, EveryLawHoldsOnEveryDecoderWithinTheRoundingOfItsFormat) {
  int n_close = 0;
  for (const testing_support::KnownDecoder& decoder : testing_support::known_decoders()) {
    if (decoder.folder.string().find("shared") != std::string::npos) continue;
    const Model model = Model::load(decoder.folder.string(), {.backend = BackendChoice::kReference});
    const Verification result = verify(model, {.ids = kPrompt, .compare = false});
    EXPECT_THAT(broken_laws(result.laws), testing::IsEmpty()) << decoder.name;
    EXPECT_TRUE(result.tolerance <= 0.02 || decoder.name.find("int") != std::string::npos || decoder.name.find("q4") != std::string::npos)
        << decoder.name << ": " << result.tolerance;
    if (result.tolerance <= 1e-3) ++n_close;
  }
  EXPECT_GT(n_close, 20);
}

// Its positions are others beyond 16 tokens: what was cached before must not be used then, nor after a rewind what was cached beyond.
TEST(Verify, EveryLawHoldsAcrossALengthSwitch) {
  const auto folder = testing_support::fixtures() / "forms" / "length-switch";
  DecoderLaws options;
  for (TokenId token = 3; token < 24; ++token) options.prompt.push_back(token);
  for (const std::shared_ptr<backend::Backend>& backend :
       {testing_support::open_native(folder, {}), testing_support::open_reference(folder), testing_support::open_ort(folder)}) {
    if (backend == nullptr) continue;  // no ONNX Runtime
    EXPECT_EQ(backend->traits().switch_after, 16);
    options.peers = {{"as the reference", testing_support::open_reference(folder), options.tolerance}};
    EXPECT_THAT(broken_laws(verify_decoder(backend, options)), testing::IsEmpty()) << backend->traits().name;
  }
}

TEST(Verify, OnnxRuntimeAndTheReferenceAgree) {
  const auto folder = testing_support::fixtures() / "zoo" / "qwen2";
  const std::shared_ptr<backend::Backend> ort = testing_support::open_ort(folder);
  KVIK_NEEDS_ORT(ort);
  DecoderLaws options;
  options.prompt = kPrompt;
  options.peers = {{"ort = reference", testing_support::open_reference(folder), options.tolerance}};
  const std::vector<Law> laws = verify_decoder(ort, options);
  EXPECT_THAT(broken_laws(laws), testing::IsEmpty());
  EXPECT_EQ(laws.back().name, "ort = reference");
}

TEST(Verify, AMaskThatHidesThePastIsRefuted) {
  const auto model = faulty_model([](std::string_view name, const Tensor& tensor) {
    if (name != "attention_mask" || tensor.size() < 2) return tensor;
    Tensor broken = tensor;
    broken.mutable_data<int64_t>()[0] = 0;  // the first token vanishes as soon as there is a second
    return broken;
  });
  DecoderLaws options;
  options.prompt = kPrompt;
  options.peers = {
      {"faulty = reference", testing_support::open_reference(testing_support::fixtures() / "zoo" / "qwen2"), options.tolerance}};
  EXPECT_THAT(broken_laws(verify_decoder(model, options)), testing::Contains("faulty = reference"));
}

Faulty::Change mask_of_new_tokens_only() {
  auto n_new = std::make_shared<int64_t>(0);  // the ids are fed before the mask
  return [n_new](std::string_view name, const Tensor& tensor) {
    if (name == "input_ids") *n_new = tensor.size();
    if (name != "attention_mask") return tensor;
    Tensor broken = tensor;
    for (int64_t i = 0; i < tensor.size() - *n_new; ++i) broken.mutable_data<int64_t>()[static_cast<size_t>(i)] = 0;
    return broken;
  };
}

TEST(Verify, AMaskOfTheNewTokensOnlyIsRefutedAsCachedNotUncached) {
  DecoderLaws options;
  options.prompt = kPrompt;
  EXPECT_THAT(broken_laws(verify_decoder(faulty_model(mask_of_new_tokens_only()), options)), testing::Contains("cached = uncached"));
}

TEST(Verify, RowsDependOnTheBatchOnlyIfActivationsAreQuantizedOverAllRows) {
  EXPECT_LT(batch_sensitivity(testing_support::open_reference(testing_support::fixtures() / "zoo" / "qwen2"), kPrompt), 1e-4);
  EXPECT_GT(batch_sensitivity(testing_support::open_reference(testing_support::fixtures() / "zoo" / "llama-int8"), kPrompt), 1e-2);
}

// A compile that quantizes each row by itself is right, however far a run of all rows together is from that.
TEST(Verify, AFileThatQuantizesOverAllRowsIsComparedRowByRow) {
  const auto folder = testing_support::fixtures() / "zoo" / "llama-int8";
  DecoderLaws options;
  options.prompt = kPrompt;
  options.tolerance = 0;
  options.peers = {
      {.law = "native = reference", .backend = testing_support::open_reference(folder), .tolerance = 0.01, .row_by_row = true}};
  const std::vector<Law> laws = verify_decoder(testing_support::open_native(folder), options);
  EXPECT_THAT(broken_laws(laws), testing::IsEmpty());
  const Law& together = laws.back();
  EXPECT_EQ(together.name, "native = reference, all rows in one run");
  EXPECT_TRUE(together.information && together.holds);
  EXPECT_GT(together.relative_difference, 0.01);
}

TEST(Verify, ABrokenMaskIsRefutedAlsoWhereActivationsAreQuantizedOverAllRows) {
  DecoderLaws options;
  options.prompt = kPrompt;
  options.tolerance = 0.75;
  const auto model = faulty_model(mask_of_new_tokens_only(), "llama-int8");
  EXPECT_THAT(broken_laws(verify_decoder(model, options)), testing::Contains("cached = uncached"));
}

TEST(Verify, PositionsThatStartAgainAreRefutedAsCachedNotUncached) {
  const auto model = faulty_model([](std::string_view name, const Tensor& tensor) {
    if (name != "position_ids") return tensor;
    Tensor shifted = tensor;
    for (int64_t& position : shifted.mutable_data<int64_t>()) position -= tensor.data<int64_t>()[0];
    return shifted;
  });
  DecoderLaws options;
  options.prompt = kPrompt;
  const std::vector<Law> laws = verify_decoder(model, options);
  EXPECT_THAT(broken_laws(laws), testing::Contains("cached = uncached"));
  EXPECT_THAT(laws.front().detail, testing::HasSubstr("token by token, after 2 of 8 tokens"));
}

TEST(Verify, APromptOfOneTokenIsAnError) {
  DecoderLaws options;
  options.prompt = {1};
  EXPECT_THROW(verify_decoder(testing_support::open_reference(testing_support::fixtures() / "forms" / "plain"), options), Error);
}

}  // namespace
}  // namespace kvik::laws
