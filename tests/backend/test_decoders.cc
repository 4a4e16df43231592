// Every test decoder generates the ids of its exporter's own framework, on every backend.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/cpu_features.h"
#include "engine/sequence.h"
#include "kvik/error.h"
#include "support/models.h"
#include "support/paths.h"

namespace kvik {
namespace {

using testing_support::DecoderCase;
using testing_support::KnownDecoder;

TokenId largest(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void expect_known_answers(const std::shared_ptr<backend::Backend>& backend, const KnownDecoder& decoder) {
  for (const DecoderCase& known : decoder.cases) {
    engine::Sequence sequence(backend, 0);
    ASSERT_EQ(sequence.append(known.prompt_ids), AppendStatus::kDone);
    // Half precision and quantized activations round elsewhere in another runtime; there the ids must agree.
    const bool same_rounding = !decoder.by_onnx_runtime || backend->traits().name == "ort";
    for (size_t i = 0; same_rounding && i < known.logit_indices.size(); ++i) {
      EXPECT_NEAR(sequence.logits()[static_cast<size_t>(known.logit_indices[i])], known.logit_values[i], 2e-3) << decoder.name;
    }
    std::vector<TokenId> ids;
    while (ids.size() < known.greedy_ids.size()) {
      ids.push_back(largest(sequence.logits()));
      ASSERT_EQ(sequence.append({&ids.back(), 1}), AppendStatus::kDone);
    }
    EXPECT_EQ(ids, known.greedy_ids) << decoder.name;
  }
}

// Without VNNI, ONNX Runtime adds pairs of int8 products in 16 bits, which saturate: its ids are then not those that were stored.
bool saturates_on_onnx_runtime(const KnownDecoder& decoder) {
  return decoder.by_onnx_runtime && decoder.name.find("int") != std::string::npos && !detect_cpu_features().avx512_vnni;
}

void expect_finite_logits(const std::shared_ptr<backend::Backend>& backend, const KnownDecoder& decoder) {
  engine::Sequence sequence(backend, 0);
  ASSERT_EQ(sequence.append(decoder.cases.front().prompt_ids), AppendStatus::kDone);
  for (const float logit : sequence.logits()) ASSERT_TRUE(std::isfinite(logit)) << decoder.name;
}

class Decoders : public testing::TestWithParam<KnownDecoder> {};

TEST_P(Decoders, GiveTheExpectedIdsOnTheReferenceEvaluator) {
  expect_known_answers(testing_support::open_reference(GetParam().folder), GetParam());
}

TEST_P(Decoders, GiveTheExpectedIdsNatively) { expect_known_answers(testing_support::open_native(GetParam().folder), GetParam()); }

TEST_P(Decoders, GiveTheExpectedIdsOnOnnxRuntime) {
  const std::shared_ptr<backend::Backend> backend = testing_support::open_ort(GetParam().folder);
  KVIK_NEEDS_ORT(backend);
  (saturates_on_onnx_runtime(GetParam()) ? expect_finite_logits : expect_known_answers)(backend, GetParam());
}

std::string test_name(const testing::TestParamInfo<KnownDecoder>& info) {
  return testing_support::test_name_of(fmt::format("{}_{}", info.index, info.param.name));
}

TEST(Decoders, EveryModelOfTheLargerTestDataIsIncluded) {
  KVIK_NEEDS_SHARED();
  std::vector<std::filesystem::path> folders;
  for (const KnownDecoder& decoder : testing_support::known_decoders()) folders.push_back(decoder.folder);
  for (const auto& entry : std::filesystem::directory_iterator(testing_support::shared() / "fixtures" / "models")) {
    EXPECT_THAT(folders, testing::Contains(entry.path())) << "has no answers in tests/fixtures/models-expected";
  }
}

INSTANTIATE_TEST_SUITE_P(Known, Decoders, testing::ValuesIn(testing_support::known_decoders()), test_name);

}  // namespace
}  // namespace kvik
