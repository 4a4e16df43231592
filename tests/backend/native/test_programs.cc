// Every test model becomes the program over rows that is expected, or is refused for the reason that is expected; and the program
// computes what the graph computes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <map>

#include "backend/native/compile.h"
#include "backend/native/graph/outcome.h"
#include "support/paths.h"
#include "support/programs.h"

namespace kvik {
namespace {

using testing_support::ModelFolder;

std::string decoder_or_encoder(const std::filesystem::path& folder) {
  try {
    const analysis::Signature signature = analysis::analyze(folder);
    const bool decodes = signature.first_step() != nullptr;
    return testing_support::summary(decodes ? native::take(native::compile_decoder(signature))
                                            : native::take(native::compile_encoder(signature)));
  } catch (const Error& error) { return fmt::format("refused: {}", error.what()); }
}

class Programs : public testing::TestWithParam<ModelFolder> {};

TEST_P(Programs, AreAsExpected) {
  static const std::map<std::string, std::string> expected = testing_support::expected_programs();
  const std::string found = decoder_or_encoder(GetParam().path);
  const auto line = expected.find(GetParam().name);
  ASSERT_NE(line, expected.end()) << "is in no list; it became\n" << GetParam().name << ": " << found;
  if (line->second.starts_with("refused")) {
    EXPECT_THAT(found, testing::HasSubstr(line->second.substr(line->second.find(": ") + 2)));
  } else {
    EXPECT_EQ(found, line->second);
  }
}

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

// The reference is asked for one token at a time: activations that a graph quantizes for a whole prompt are quantized by rows here.
TEST_P(Programs, GiveTheLogitsOfTheGraph) {
  std::vector<std::vector<float>> found;
  std::vector<TokenId> tokens, source;
  double allowed = 0;
  bool has_encoder = false;
  try {
    const analysis::Signature signature = analysis::analyze(GetParam().path);
    has_encoder = signature.encoder() != nullptr;
    if (signature.first_step() == nullptr || signature.first_step()->input_of(analysis::Role::kTokenIds) == nullptr) return;
    if (signature.first_step()->output_of(analysis::Role::kLogits) == nullptr) return;
    const auto vocab = static_cast<TokenId>(signature.vocab.value_or(50));
    for (TokenId i = 0; i < 9; ++i) tokens.push_back((i * 7 + 5) % vocab);
    for (TokenId i = 0; i < 5; ++i) source.push_back((i * 11 + 6) % vocab);
    allowed = tolerance(signature);
    found = testing_support::program_logits(GetParam().path, source, tokens);
  } catch (const Error& error) {  // an encoder may be refused; a decoder only if the list has it
    EXPECT_TRUE(has_encoder || !testing_support::is_expected_program(GetParam().name)) << error.what();
    return;
  }
  const double difference = testing_support::relative_difference(testing_support::reference_logits(GetParam().path, source, tokens), found);
  EXPECT_LT(difference, allowed);
}

INSTANTIATE_TEST_SUITE_P(All, Programs, testing::ValuesIn(testing_support::model_folders()), testing_support::NameOfParam());

}  // namespace
}  // namespace kvik
