#include <gtest/gtest.h>

#include "analysis/mask_use.h"
#include "analysis/signature.h"
#include "analysis/tiny_decoder.h"
#include "kvik/error.h"
#include "support/paths.h"

namespace kvik::analysis {
namespace {

using testing_support::fixtures;
using testing_support::ModelWriter;
using testing_support::read;
using testing_support::TinyDecoder;

File analyzed(const TinyDecoder& decoder) {
  const std::string bytes = decoder.bytes();
  File file = analyze_graph(read(bytes));
  for (std::vector<Port>* ports : {&file.inputs, &file.outputs}) {
    for (Port& port : *ports) {
      for (onnx::Dim& dim : port.dims) dim.symbol = {};  // pointed into the bytes
    }
  }
  return file;
}

TEST(GraphAnalysis, ADecoderIsReadFromWhatItDoes) {
  const File file = analyzed({.n_layers = 2});
  EXPECT_EQ(file.stage, Stage::kDecoder);
  EXPECT_EQ(file.vocab, 40);
  EXPECT_EQ(file.input_of(Role::kTokenIds)->name, "ids");
  EXPECT_EQ(file.output_of(Role::kLogits)->name, "scores");
  ASSERT_EQ(file.states.size(), 4u);
  for (const State& state : file.states) {
    EXPECT_EQ(state.growth, Growth::kGrowing);
    EXPECT_EQ(state.position_axis, 2);
    EXPECT_EQ(state.n_heads, 2);
    EXPECT_EQ(state.head_dim, 4);
    EXPECT_EQ(file.outputs[static_cast<size_t>(state.output)].name.substr(3), file.inputs[static_cast<size_t>(state.input)].name.substr(3));
  }
  EXPECT_EQ(file.inputs[1].role, Role::kPastKey);
  EXPECT_EQ(file.inputs[2].role, Role::kPastValue);
}

TEST(GraphAnalysis, TheConcatWinsOverContradictingDims) {
  for (const char* declared : {"past", "s", "b", "7"}) {
    const File file = analyzed({.past_dim = "past", .present_dim = declared});
    ASSERT_EQ(file.states.size(), 2u) << declared;
    EXPECT_EQ(file.states[0].growth, Growth::kGrowing) << declared;
    EXPECT_EQ(file.states[0].position_axis, 2) << declared;
  }
}

TEST(GraphAnalysis, APresentOfAnotherTypeThanItsPastIsStillItsPresent) {
  const File file = analyzed({.past_dtype = DType::kF16, .present_dtype = DType::kF32});
  ASSERT_EQ(file.states.size(), 2u);
  EXPECT_GE(file.states[0].output, 0);
  EXPECT_EQ(file.states[0].dtype, DType::kF16);
  EXPECT_EQ(file.states[0].output_dtype, DType::kF32);
  EXPECT_EQ(file.states[0].bytes_per_token(), 2 * 4 * 2);
}

TEST(GraphAnalysis, InputsThatCannotBeDistinguishedAreReported) {
  const TinyDecoder decoder{.more_inputs = {{"one", {"b"}}, {"two", {"b"}}}};
  try {
    analyzed(decoder);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadArgument);
    for (const char* part : {"'one'", "'two'", "kvik.json"}) EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(GraphAnalysis, OneUnknownInputIsAProblemAndNotAnError) {
  const File file = analyzed({.more_inputs = {{"one", {"b"}}}});
  ASSERT_EQ(file.problems.size(), 1u);
  EXPECT_NE(file.problems[0].find("'one'"), std::string::npos);
}

TEST(GraphAnalysis, ASymbolicHeadSizeIsInferredFromTheGraph) {
  const auto model = std::make_shared<const onnx::Model>(onnx::read_model(fixtures() / "zoo" / "qwen2-genai-int4" / "model.onnx"));
  const File file = analyze_graph(model);
  ASSERT_EQ(file.states.size(), 4u);
  for (const State& state : file.states) {
    EXPECT_EQ(state.n_heads, 2);
    EXPECT_EQ(state.head_dim, 16);
  }
  // All keys, then all values, as that exporter declares them.
  EXPECT_EQ(file.states[1].holds, State::Holds::kKey);
  EXPECT_EQ(file.states[1].layer, 1);
  EXPECT_EQ(file.states[2].holds, State::Holds::kValue);
  EXPECT_EQ(file.states[2].layer, 0);
}

TEST(GraphAnalysis, AGraphWithTheWholeLoopIsNotADecoder) {
  ModelWriter w;
  w.input("input_ids", DType::kI32, {"b", "s"});
  w.input("max_length", DType::kI32, {"1"});
  w.call("com.microsoft", "BeamSearch", {"input_ids", "max_length"}, {"sequences"});
  w.output("sequences", DType::kI32, {"b", "beams", "n"});
  const std::string bytes = w.bytes();
  const File file = analyze_graph(read(bytes));
  EXPECT_EQ(file.stage, Stage::kOther);
  ASSERT_EQ(file.problems.size(), 1u);
  EXPECT_NE(file.problems[0].find("BeamSearch"), std::string::npos);
}

TEST(GraphAnalysis, HundredsOfLayersArePaired) {
  const std::string bytes = TinyDecoder{.n_layers = 280, .n_idle_nodes = 160}.bytes();
  EXPECT_EQ(analyze_graph(read(bytes)).states.size(), 560u);
}

// A decoder of one layer in fused operators: attention to a source, whose keys and values it hands out.
std::string fused_cross_decoder(bool counts_mask) {
  ModelWriter writer;
  const std::string four(4 * 4 * 4, '\0');
  writer.input("ids", DType::kI64, {"batch", "new"});
  writer.input("encoder_hidden_states", DType::kF32, {"batch", "source", "4"});
  writer.input("encoder_attention_mask", DType::kI64, {"batch", "source"});
  for (const char* name : {"table", "k", "v"}) writer.weight(name, DType::kF32, {4, 4}, four);
  writer.node("Gather", {"table", "ids"}, {"x"});
  writer.node("MatMul", {"encoder_hidden_states", "k"}, {"keys"});
  writer.node("MatMul", {"encoder_hidden_states", "v"}, {"values"});
  writer.node("Cast", {"encoder_attention_mask"}, {"mask"});
  writer.node({.op = counts_mask ? "ReduceSum" : "Mul", .inputs = {"mask", "mask"}, .outputs = {"length"}});
  writer.node({.op = "MultiHeadAttention",
               .inputs = {"x", "keys", "values", "", "length"},
               .outputs = {"y", "cross_key", "cross_value"},
               .domain = "com.microsoft",
               .ints = {{"num_heads", 2}}});
  writer.node("MatMul", {"y", "table"}, {"logits"});
  writer.output("logits", DType::kF32, {"batch", "new", "4"});
  writer.output("cross_key", DType::kF32, {"batch", "2", "source", "2"});
  writer.output("cross_value", DType::kF32, {"batch", "2", "source", "2"});
  return writer.bytes();
}

TEST(GraphAnalysis, KeysThatAnOperatorComputesFromTheSourceAreCrossKeys) {
  const std::string bytes = fused_cross_decoder(false);
  const File file = analyze_graph(read(bytes));
  ASSERT_EQ(file.states.size(), 2u);
  for (const State& state : file.states) EXPECT_TRUE(state.cross);
}

TEST(GraphAnalysis, AMaskThatIsOnlySummedIsDistinguishedFromAPositionalMask) {
  for (const bool counts : {false, true}) {
    const std::string bytes = fused_cross_decoder(counts);
    const File file = analyze_graph(read(bytes));
    EXPECT_EQ(only_counts(file, file.inputs.back()), counts);
  }
}

TEST(GraphAnalysis, ASourceInputIsNotMistakenForPositions) {
  ModelWriter writer;
  writer.input("input_ids", DType::kI64, {"batch", "source"});
  writer.input("decoder_input_ids", DType::kI64, {"batch", "new"});
  writer.weight("table", DType::kF32, {40, 4}, std::string(40 * 4 * 4, '\0'));
  writer.weight("head", DType::kF32, {4, 40}, std::string(40 * 4 * 4, '\0'));
  writer.node("Gather", {"table", "input_ids"}, {"source_rows"});
  writer.node("Gather", {"table", "decoder_input_ids"}, {"x"});
  writer.node({.op = "MultiHeadAttention",
               .inputs = {"x", "source_rows", "source_rows"},
               .outputs = {"y"},
               .domain = "com.microsoft",
               .ints = {{"num_heads", 2}}});
  writer.node("MatMul", {"y", "head"}, {"logits"});
  writer.output("logits", DType::kF32, {"batch", "new", "40"});
  const std::string bytes = writer.bytes();
  const File file = analyze_graph(read(bytes));
  for (const Port& port : file.inputs) EXPECT_NE(port.role, Role::kPositionIds) << port.name;
}

}  // namespace
}  // namespace kvik::analysis
