// Caches that are cut to the positions in use, and masks among the new tokens alone: graphs that look like them and mean something else.
#include <algorithm>
#include <gmock/gmock.h>

#include "analysis/signature.h"
#include "backend/native/compile.h"
#include "backend/native/plan/weights.h"
#include "support/models.h"

namespace kvik {
namespace {

using testing::HasSubstr;

analysis::Signature form(std::string_view name) { return analysis::analyze(testing_support::fixtures() / "forms" / name); }

// The decoder with its graph changed by `change`.
template <class Change>
native::Outcome<native::Program> compile_changed(std::string_view name, const Change& change) {
  analysis::Signature signature = form(name);
  auto model = std::make_shared<onnx::Model>(*signature.files.at(0).model);
  auto graph = std::make_shared<onnx::Graph>(*model->graph);
  change(*graph);
  model->graph = std::move(graph);
  signature.files[0].model = std::move(model);
  return native::compile_decoder(signature);
}

// The number at [row, column] of the mask of all positions.
void set_mask(onnx::Graph& graph, int64_t row, int64_t column, float number) {
  const Dims wanted = {32, 32};
  const auto mask = std::ranges::find_if(graph.initializers, [&](const onnx::TensorData& one) { return one.dims == wanted; });
  ASSERT_NE(mask, graph.initializers.end());
  const Tensor old = onnx::load(*mask);
  std::vector<float> numbers(old.data<float>().begin(), old.data<float>().end());
  numbers[static_cast<size_t>(row * 32 + column)] = number;
  *mask = native::stored_in_memory(Tensor::of<float>(wanted, numbers));
}

TEST(CutBuffers, SlicedBuffersWithAMaskAmongNewTokensCompileForAllPositions) {
  for (const char* name : {"fixed-cut", "prompt-mask"}) {
    const native::Outcome<native::Program> program = native::compile_decoder(form(name));
    ASSERT_TRUE(program) << program.sentence();
    EXPECT_EQ(program->max_positions.value_or(32), 32) << name;
    for (const native::Attend& attend : program->attends) EXPECT_EQ(attend.words, "causal");
  }
}

TEST(CutBuffers, SlicesOfAnotherLayerThanTheWrittenOneAreRefused) {
  const auto program = compile_changed("fixed-cut", [](onnx::Graph& graph) {
    std::vector<onnx::Node*> layers;
    for (onnx::Node& node : graph.nodes) {
      if (node.op == "Gather" && graph.name_of(node.inputs[0]) == "in_n_layer_self_k_cache") layers.push_back(&node);
    }
    ASSERT_EQ(layers.size(), 2);
    std::swap(layers[0]->inputs[1], layers[1]->inputs[1]);
  });
  ASSERT_NE(program.refusal(), nullptr);
}

TEST(CutBuffers, SlicesAtOtherLengthsAreRefused) {
  const auto program = compile_changed("fixed-cut", [](onnx::Graph& graph) {
    for (onnx::Node& node : graph.nodes) {
      const bool cuts = node.op == "Slice" && graph.value(node.inputs[0]).producer != onnx::kNoNode &&
                        graph.nodes[static_cast<size_t>(graph.value(node.inputs[0]).producer)].op == "Gather";
      if (cuts) node.inputs[2] = node.inputs[1];  // nothing of it
    }
  });
  ASSERT_NE(program.refusal(), nullptr);
}

// A row of a long prompt that does not see a key which it sees when it comes alone.
TEST(CutBuffers, PromptsThatSeeOtherKeysThanSingleTokensAreRefused) {
  for (const char* name : {"fixed-cut", "prompt-mask"}) {
    const auto program = compile_changed(name, [](onnx::Graph& graph) { set_mask(graph, 25, 3, -10000.0f); });
    ASSERT_NE(program.refusal(), nullptr) << name;
    const auto ahead = compile_changed(name, [](onnx::Graph& graph) { set_mask(graph, 20, 21, 0.0f); });
    ASSERT_NE(ahead.refusal(), nullptr) << name;
  }
}

TEST(CutBuffers, ARefusedMaskAmongNewTokensHasAReason) {
  const auto program = compile_changed("prompt-mask", [](onnx::Graph& graph) { set_mask(graph, 25, 3, -10000.0f); });
  ASSERT_NE(program.refusal(), nullptr);
  EXPECT_THAT(program.sentence(), HasSubstr("does not depend only on the distance between query and key"));
}

}  // namespace
}  // namespace kvik
