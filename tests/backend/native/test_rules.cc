// What the compiler infers from an attention written or modified in one way (tests/fixtures/rules): the mask pattern in words, and rows
// that compute what the graph computes; or a refusal that names the node. A wrong program is the one thing that must never come out.
#include <algorithm>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "backend/native/compile.h"
#include "backend/native/graph/outcome.h"
#include "onnx/eval/evaluator.h"
#include "support/models.h"
#include "support/paths.h"
#include "support/row_interpreter.h"

namespace kvik {
namespace {

struct Expected {
  std::string name;
  std::optional<std::string> words;    // of the rule
  std::optional<std::string> refused;  // a part of the sentence
};

void PrintTo(const Expected& expected, std::ostream* out) { *out << expected.name; }

std::vector<Expected> all_expected() {
  std::vector<Expected> result;
  const Json json = read_json_file(testing_support::fixtures() / "rules" / "expected.json");
  for (const auto& [name, one] : json.items()) {
    Expected expected{name, {}, {}};
    if (one.contains("words")) expected.words = one["words"].get<std::string>();
    if (one.contains("refused")) expected.refused = one["refused"].get<std::string>();
    result.push_back(std::move(expected));
  }
  return result;
}

class Rules : public testing::TestWithParam<Expected> {
 protected:
  std::filesystem::path folder() const { return testing_support::fixtures() / "rules" / GetParam().name; }
};

TokenId token(int i) { return 3 + i * 5 % 17; }

// Logits of rows 0 … n - 1 of one sequence, all in one run of the graph.
std::vector<std::vector<float>> by_reference(const analysis::File& file, int n) {
  onnx::Feeds feeds;
  for (const analysis::Port& port : file.inputs) {
    if (port.role == analysis::Role::kTokenIds) {
      Tensor ids(DType::kI64, {1, n});
      for (int i = 0; i < n; ++i) ids.mutable_data<int64_t>()[static_cast<size_t>(i)] = token(i);
      feeds[port.name] = ids;
    } else if (port.role == analysis::Role::kAttentionMask) {
      feeds[port.name] = Tensor::of<int64_t>({1, n}, std::vector<int64_t>(static_cast<size_t>(n), 1));
    } else {
      feeds[port.name] = Tensor(port.dtype, {1, port.dims[1].value, 0, port.dims[3].value});
    }
  }
  const auto at = static_cast<size_t>(file.output_of(analysis::Role::kLogits) - file.outputs.data());
  const Tensor logits = onnx::Evaluator(*file.model->graph).run(feeds).at(at);
  const std::span<const float> data = logits.data<float>();
  const auto vocab = static_cast<size_t>(logits.dim(2));
  std::vector<std::vector<float>> result;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i)
    result.emplace_back(data.begin() + static_cast<int64_t>(i * vocab), data.begin() + static_cast<int64_t>((i + 1) * vocab));
  return result;
}

std::vector<std::vector<float>> by_rows(const native::Program& program, int n) {
  std::vector<backend::Row> rows;
  for (int i = 0; i < n; ++i) rows.push_back({.token = token(i), .position = i});
  return testing_support::RowInterpreter(program).run(rows);
}

// A node of the graph, or one of its values in quotes.
MATCHER_P(names_a_part_of, graph, "") {
  const native::Refusal& refusal = arg;
  const auto quotes = [&](std::string_view name) {
    return !name.empty() && refusal.sentence().find(fmt::format("'{}'", name)) != std::string::npos;
  };
  return std::ranges::any_of(graph.nodes, [&](const onnx::Node& node) { return quotes(node.name); }) ||
         std::ranges::any_of(graph.values, [&](const auto& value) { return quotes(value.name); });
}

TEST_P(Rules, AreDetectedCorrectlyOrRefused) {
  const analysis::Signature signature = analysis::analyze(folder());
  const Expected& expected = GetParam();
  const analysis::File& file = signature.files.at(0);
  const bool one_sequence = file.input_of(analysis::Role::kTokenIds)->dims.at(0).value == 1;
  const native::Outcome<native::Program> program = native::compile_file(file, {.one_sequence = one_sequence});
  if (!program) {
    ASSERT_TRUE(expected.refused) << program.sentence();
    EXPECT_THAT(program.sentence(), testing::HasSubstr(*expected.refused));
    const native::Refusal* refusal = program.length_switch() != nullptr ? &program.length_switch()->refusal : program.refusal();
    ASSERT_NE(refusal, nullptr);
    EXPECT_THAT(*refusal, names_a_part_of(*file.model->graph));
    return;
  }
  ASSERT_TRUE(expected.words) << "compiled as '" << (program->attends.empty() ? "" : program->attends[0].words) << "'";
  ASSERT_EQ(program->attends.size(), 1);
  EXPECT_THAT(program->attends[0].words, testing::StartsWith(*expected.words));
  constexpr int kRows = 19;
  const auto rows = by_rows(*program, kRows), reference = by_reference(signature.files[0], kRows);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_THAT(rows[i], testing::Pointwise(testing::FloatNear(1e-4f), reference[i])) << "row " << i;
}

INSTANTIATE_TEST_SUITE_P(All, Rules, testing::ValuesIn(all_expected()), testing_support::NameOfParam());

// Its mask lets the places of the buffer through that nothing was written to yet, and only those.
TEST(FixedBuffers, MustNotSeePositionsThatWereNotWritten) {
  analysis::Signature signature = analysis::analyze(testing_support::fixtures() / "forms" / "fixed-position");
  analysis::File& file = signature.files.at(0);
  ASSERT_TRUE(native::compile_file(file));
  auto graph = std::make_shared<onnx::Graph>(*file.model->graph);
  const auto inverts = std::ranges::find_if(graph->nodes, [](const onnx::Node& node) { return node.op == "Sub"; });
  ASSERT_NE(inverts, graph->nodes.end());
  std::swap(inverts->inputs[0], inverts->inputs[1]);  // 1 - mask becomes mask - 1
  auto model = std::make_shared<onnx::Model>(*file.model);
  model->graph = std::move(graph);
  file.model = std::move(model);
  EXPECT_NE(native::compile_file(file).refusal(), nullptr);
}

}  // namespace
}  // namespace kvik
