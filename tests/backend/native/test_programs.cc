// The program over rows of every model at hand computes what its graph computes.
#include <algorithm>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kvik/error.h"
#include "support/programs.h"

namespace kvik {
namespace {

using testing_support::ModelFolder;

class Programs : public testing::TestWithParam<ModelFolder> {};

// Narrow floats are computed in f32 here, and rounded after every operator by the reference.
double tolerance(const analysis::Signature& signature) {
  for (const analysis::File& file : signature.files) {
    for (const analysis::State& state : file.states) {
      if (state.dtype == DType::kF16 || state.dtype == DType::kBF16) return 1e-2;
    }
    for (const onnx::TensorData& weight : file.model->graph->initializers) {
      if (weight.dtype == DType::kF16 || weight.dtype == DType::kBF16) return 1e-2;
    }
  }
  return 1e-4;
}

// The reference is asked for one token at a time: activations that a graph quantises for a whole prompt are quantised by rows here.
TEST_P(Programs, GiveTheLogitsOfTheGraph) {
  std::vector<std::vector<float>> found;
  std::vector<TokenId> tokens, source;
  double allowed = 0;
  try {
    const analysis::Signature signature = analysis::analyse(GetParam().path);
    if (signature.first_step() == nullptr) GTEST_SKIP() << "not a decoder";
    if (signature.first_step()->input_of(analysis::Role::kTokenIds) == nullptr) GTEST_SKIP() << "rows come as embeddings";
    const auto vocab = static_cast<TokenId>(signature.vocab.value_or(50));
    for (TokenId i = 0; i < 9; ++i) tokens.push_back((i * 7 + 5) % vocab);
    for (TokenId i = 0; i < 5; ++i) source.push_back((i * 11 + 6) % vocab);
    allowed = tolerance(signature);
    found = testing_support::program_logits(GetParam().path, source, tokens);
  } catch (const Error& error) { GTEST_SKIP() << error.what(); }
  const double difference = testing_support::relative_difference(testing_support::reference_logits(GetParam().path, source, tokens), found);
  EXPECT_LT(difference, allowed);
}

std::string test_name(const testing::TestParamInfo<ModelFolder>& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Programs, testing::ValuesIn(testing_support::model_folders()), test_name);

}  // namespace
}  // namespace kvik
