// What `kvik verify` promises of a loaded model: which laws are tried, how close they must hold, and what is only reported.
#include <gmock/gmock.h>

#include "api/load.h"
#include "backend/reference/reference_backend.h"
#include "kvik/verify.h"
#include "support/models.h"
#include "verify/decoder_laws.h"
#include "verify/dequantize.h"

namespace kvik {
namespace {

std::filesystem::path fable() { return testing_support::source_root() / "models" / "fable"; }
std::string plain() { return (testing_support::fixtures() / "forms" / "plain").string(); }

constexpr double kRounding = 0.01;  // of a cache in 16 bits

const Law* find_law(const Verification& result, std::string_view name) {
  for (const Law& law : result.laws) {
    if (law.name == name) return &law;
  }
  return nullptr;
}

TEST(VerifyModel, QuantizedWeightsAreComparedWithTheReferenceOnTheSameNumbers) {
  double distance = 0;
  for (const Weights weights : {Weights::kQ8, Weights::kQ4}) {
    const Verification result = verify(Model::load(fable().string(), {.backend = BackendChoice::kNative, .weights = weights}));
    EXPECT_TRUE(result.holds());
    const Law* close = find_law(result, "native = reference, dequantized");
    const Law* full = find_law(result, "distance to full precision");
    ASSERT_TRUE(close != nullptr && full != nullptr);
    EXPECT_FALSE(close->information);
    EXPECT_LT(close->relative_difference, kRounding);
    EXPECT_TRUE(full->information && full->holds && full->cases > 0);
    const Law* rows = find_law(result, "distance by quantized rows");
    ASSERT_NE(rows, nullptr);
    EXPECT_TRUE(rows->information && rows->relative_difference > close->relative_difference);
    distance = full->relative_difference;
  }
  EXPECT_GT(distance, 10 * kRounding) << "four bits are far from full precision; the same numbers are not";
}

TEST(VerifyModel, WeightsThatAreNotTheSameNumbersAreFound) {
  const analysis::Signature signature = analysis::analyze(fable());
  const auto backend = testing_support::open_native(fable(), {.weights = native::WeightChoice::kQ4, .quantizes_rows = false});
  laws::DecoderLaws options;
  options.prompt = {3, 14, 15, 9};
  for (const native::WeightChoice other : {native::WeightChoice::kQ4, native::WeightChoice::kQ8}) {
    std::optional<analysis::Signature> numbers = laws::dequantized(signature, {.weights = other});
    ASSERT_TRUE(numbers);
    options.peers = {{"peer", backend::make_reference_backend(std::move(*numbers)), kRounding}};
    EXPECT_EQ(laws::verify_decoder(backend, options).back().holds, other == native::WeightChoice::kQ4);
  }
}

TEST(VerifyModel, EmbeddingsOfQuantizedWeightsAreNotHeldToFullPrecision) {
  const std::string folder = (testing_support::fixtures() / "forms" / "hidden-states").string();
  const Verification result = verify(Model::load(folder, {.backend = BackendChoice::kNative, .weights = Weights::kQ4}));
  EXPECT_TRUE(result.holds());
  const Law* full = find_law(result, "embeddings: distance to full precision");
  ASSERT_NE(full, nullptr);
  EXPECT_TRUE(full->information && full->relative_difference > 0.25) << "or this model does not show what would be wrong";
}

TEST(VerifyModel, LawsArriveOneByOneAndStopWhenCancelled) {
  std::vector<std::string> names;
  VerifyOptions options;
  options.compare = false;
  options.on_law = [&](const Law& law) { names.push_back(law.name); };
  options.cancelled = [&] { return names.size() == 2; };
  const Verification result = verify(Model::load(plain(), {.backend = BackendChoice::kReference}), options);
  EXPECT_EQ(result.finish, Finish::kCancelled);
  EXPECT_THAT(names, testing::ElementsAre("cached = uncached", "any split of the prompt"));
  EXPECT_EQ(result.laws.size(), 2u);
}

TEST(VerifyModel, ABackendThatGuaranteesEqualBitsMustHaveThem) {
  const Verification result = verify(Model::load(plain(), {.backend = BackendChoice::kNative}));
  EXPECT_EQ(result.tolerance, 0);
  for (const char* name : {"cached = uncached", "batch = alone", "one thread = many", "scalar = vectors"}) {
    ASSERT_NE(find_law(result, name), nullptr) << name;
    EXPECT_TRUE(find_law(result, name)->exact) << name;
  }
}

}  // namespace
}  // namespace kvik
