#include <gtest/gtest.h>
#include <protozero/pbf_builder.hpp>

#include "kvik/error.h"
#include "onnx/reader.h"
#include "support/model_writer.h"
#include "support/paths.h"

namespace kvik::onnx {
namespace {

using namespace testing_support;

std::string refusal(const std::string& bytes) {
  try {
    read_model(std::as_bytes(std::span(bytes)));
  } catch (const Error& e) { return e.what(); }
  return "accepted";
}

ModelWriter add_model() {
  ModelWriter model;
  model.input("x", DType::kF32, {"batch", "3"});
  model.weight("w", DType::kF32, {3}, std::string(12, '\0'));
  model.node("Add", {"x", "w"}, {"y"});
  model.output("y", DType::kF32, {"batch", "3"});
  return model;
}

TEST(Reader, ReadsNamesTypesShapesAndWeights) {
  const std::string bytes = add_model().bytes();
  const Model model = read_model(std::as_bytes(std::span(bytes)));
  const Graph& graph = *model.graph;
  ASSERT_EQ(graph.inputs.size(), 1u);
  const Value& x = graph.value(graph.inputs[0]);
  EXPECT_EQ(x.name, "x");
  ASSERT_TRUE(x.type && x.type->dims);
  EXPECT_EQ((*x.type->dims)[0].symbol, "batch");
  EXPECT_EQ((*x.type->dims)[1].value, 3);
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].op, "Add");
  EXPECT_EQ(graph.nodes[0].opset, 18);
  EXPECT_EQ(load(graph.initializers[0]).dims(), Dims{3});
}

TEST(Reader, InputWithAnInitializerIsOptional) {
  ModelWriter model = add_model();
  model.input("w", DType::kF32, {"3"});
  const std::string bytes = model.bytes();
  const Model read = read_model(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(read.graph->inputs.size(), 1u);
  EXPECT_EQ(read.graph->defaulted_inputs.size(), 1u);
}

TEST(Reader, NodesAreSortedTopologically) {
  ModelWriter model;
  model.input("x", DType::kF32, {"3"});
  model.node("Neg", {"a"}, {"y"});
  model.node("Abs", {"x"}, {"a"});
  model.output("y", DType::kF32, {"3"});
  const std::string bytes = model.bytes();
  const Model read = read_model(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(read.graph->nodes[0].op, "Abs");
  EXPECT_EQ(read.graph->value(read.graph->outputs[0]).producer, 1);
}

TEST(Reader, CycleIsRefused) {
  ModelWriter model;
  model.input("x", DType::kF32, {"3"});
  model.node("Add", {"x", "b"}, {"a"});
  model.node("Neg", {"a"}, {"b"});
  model.output("b", DType::kF32, {"3"});
  EXPECT_THAT(refusal(model.bytes()), testing::HasSubstr("cycle through node 'make_a' (Add)"));
}

TEST(Reader, UndefinedInputIsRefused) {
  ModelWriter model;
  model.node("Neg", {"nowhere"}, {"y"});
  model.output("y", DType::kF32, {"3"});
  EXPECT_THAT(refusal(model.bytes()), testing::HasSubstr("'nowhere'"));
}

TEST(Reader, NameDefinedTwiceIsRefused) {
  ModelWriter model = add_model();
  model.node("Neg", {"x"}, {"y"});
  EXPECT_THAT(refusal(model.bytes()), testing::HasSubstr("'y' is defined twice"));
}

TEST(Reader, OverflowingDimsAreRefusedBeforeAllocation) {
  ModelWriter model = add_model();
  model.weight("huge", DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}, "");
  EXPECT_THAT(refusal(model.bytes()), testing::HasSubstr("invalid shape"));
  ModelWriter negative = add_model();
  negative.weight("less", DType::kF32, {-4}, "");
  EXPECT_THAT(refusal(negative.bytes()), testing::HasSubstr("invalid shape"));
}

TEST(Reader, WeightOfTheWrongSizeIsRefused) {
  ModelWriter model = add_model();
  model.weight("short", DType::kF32, {4}, std::string(12, '\0'));
  EXPECT_THAT(refusal(model.bytes()), testing::HasSubstr("needs 16 bytes; 12 are stored"));
}

TEST(Reader, WeightLargerThanItsMessageIsRefusedAtLoad) {
  ModelWriter model = add_model();
  model.weight_without_data("empty", DType::kF32, {1000000000});
  const std::string bytes = model.bytes();
  const Model read = read_model(std::as_bytes(std::span(bytes)));
  EXPECT_THAT([&] { load(read.graph->initializers[1]); }, testing::ThrowsMessage<Error>(testing::HasSubstr("has no data")));
}

TEST(Reader, UnknownElementTypeIsRefused) {
  ModelWriter model = add_model();
  model.weight("odd", static_cast<DType>(99), {1}, "");
  EXPECT_THAT(refusal(model.bytes()), testing::HasSubstr("unknown element type 99"));
}

// Only fields after the graph may be missing.
TEST(Reader, TruncatedModelIsRefusedUnlessItsGraphIsComplete) {
  const std::string bytes = add_model().bytes();
  size_t n_refused = 0;
  for (size_t n = 0; n < bytes.size(); ++n) {
    const std::string message = refusal(bytes.substr(0, n));
    if (message == "accepted") continue;
    EXPECT_THAT(message, testing::HasSubstr("ONNX model")) << n;
    ++n_refused;
  }
  EXPECT_GT(n_refused, bytes.find("batch")) << "the graph ends after this name";
}

TEST(Reader, OtherFilesAreRecognized) {
  EXPECT_THAT(refusal(""), testing::HasSubstr("empty"));
  EXPECT_THAT(refusal("hello, this is a text file\n"), testing::HasSubstr("text file"));
  EXPECT_THAT(refusal("version https://git-lfs.github.com/spec/v1\n"), testing::HasSubstr("git lfs pull"));
  EXPECT_THAT(refusal(std::string("GGUF\x03\0\0\0", 8)), testing::HasSubstr("GGUF"));
}

TEST(Reader, DeepNestingIsRefusedWithoutStackOverflow) {
  EXPECT_THAT(refusal(nested_model(10000)), testing::HasSubstr("nested more than"));
  EXPECT_EQ(refusal(nested_model(20)), "accepted");
}

TEST(Reader, NewerIrVersionIsAWarningAndAnOlderOneIsRefused) {
  std::vector<std::string> messages;
  const Log log([&](LogLevel, std::string_view message) { messages.emplace_back(message); });
  ModelWriter newer = add_model();
  newer.ir_version = 99;
  const std::string bytes = newer.bytes();
  read_model(std::as_bytes(std::span(bytes)), log);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_THAT(messages[0], testing::HasSubstr("IR version 99"));
  ModelWriter older = add_model();
  older.ir_version = 2;
  EXPECT_THAT(refusal(older.bytes()), testing::HasSubstr("IR version 2"));
}

TEST(Reader, FunctionsAreInlined) {
  ModelWriter model;
  model.input("x", DType::kF32, {"3"});
  model.function("local", "Twice", {"a"}, {"c"}, {{"Neg", {"a"}, {"b"}}, {"Neg", {"b"}, {"c"}}});
  model.call("local", "Twice", {"x"}, {"m"});
  model.call("local", "Twice", {"m"}, {"y"});
  model.output("y", DType::kF32, {"3"});
  const std::string bytes = model.bytes();
  const Model read = read_model(std::as_bytes(std::span(bytes)));
  ASSERT_EQ(read.graph->nodes.size(), 4u);
  for (const Node& node : read.graph->nodes) EXPECT_EQ(node.op, "Neg");
}

TEST(Reader, FunctionThatReturnsItsInputBecomesAnIdentity) {
  ModelWriter model;
  model.input("x", DType::kF32, {"3"});
  model.function("local", "Same", {"a"}, {"a"}, {});
  model.call("local", "Same", {"x"}, {"y"});
  model.output("y", DType::kF32, {"3"});
  const std::string bytes = model.bytes();
  EXPECT_EQ(read_model(std::as_bytes(std::span(bytes))).graph->nodes[0].op, "Identity");
}

TEST(Reader, RecursiveFunctionIsRefused) {
  ModelWriter model;
  model.input("x", DType::kF32, {"3"});
  model.function("local", "Loop", {"a"}, {"b"}, {{"Loop", {"a"}, {"b"}, "local"}});
  model.call("local", "Loop", {"x"}, {"y"});
  model.output("y", DType::kF32, {"3"});
  EXPECT_THAT(refusal(model.bytes()), testing::HasSubstr("calls itself"));
}

TEST(Reader, FunctionsThatExpandExponentiallyAreRefused) {
  ModelWriter model;
  model.input("x", DType::kF32, {"3"});
  for (int level = 0; level < 40; ++level) {
    const std::string inner = level == 0 ? "Neg" : "F" + std::to_string(level - 1);
    const std::string domain = level == 0 ? "" : "local";
    model.function("local", "F" + std::to_string(level), {"a"}, {"c"}, {{inner, {"a"}, {"b"}, domain}, {inner, {"b"}, {"c"}, domain}});
  }
  model.call("local", "F39", {"x"}, {"y"});
  model.output("y", DType::kF32, {"3"});
  EXPECT_THAT(refusal(model.bytes()), testing::HasSubstr("expand to more than"));
}

TEST(Reader, ExternalDataOutsideTheFolderIsRefused) {
  for (const char* name : {"../secret", "/etc/passwd", "a/../../b", "..\\b", "C:\\b", ""}) {
    ModelWriter model = add_model();
    model.external_weight("e", DType::kF32, {1}, name, 0);
    const TemporaryFolder folder;
    EXPECT_THROW(
        {
          try {
            read_model(folder.write("model.onnx", model.bytes()));
          } catch (const Error& e) {
            EXPECT_THAT(e.what(), testing::HasSubstr("outside the model's folder")) << name;
            throw;
          }
        },
        Error);
  }
}

TEST(Reader, ExternalDataIsFoundThroughSymbolicLinks) {
  const TemporaryFolder folder;
  ModelWriter model = add_model();
  model.external_weight("e", DType::kF32, {1}, "model.onnx_data", 4);
  folder.write("blobs/1", model.bytes());
  folder.write("blobs/2", std::string("\0\0\0\0\0\0\x80\x3f", 8));
  std::filesystem::create_directories(folder.path() / "snapshot");
  std::filesystem::create_symlink("../blobs/1", folder.path() / "snapshot" / "model.onnx");
  std::filesystem::create_symlink("../blobs/2", folder.path() / "snapshot" / "model.onnx_data");
  const Model read = read_model(folder.path() / "snapshot" / "model.onnx");
  EXPECT_EQ(load(read.graph->initializers[1]).data<float>()[0], 1.0f);
}

TEST(Reader, MissingOrTruncatedExternalDataIsRefused) {
  const TemporaryFolder folder;
  ModelWriter model = add_model();
  model.external_weight("e", DType::kF32, {4}, "weights.bin", 0);
  const std::filesystem::path path = folder.write("model.onnx", model.bytes());
  EXPECT_THAT([&] { read_model(path); }, testing::ThrowsMessage<Error>(testing::HasSubstr("file 'weights.bin' is missing")));
  folder.write("weights.bin", "short");
  EXPECT_THAT([&] { read_model(path); }, testing::ThrowsMessage<Error>(testing::HasSubstr("only 5")));
}

}  // namespace
}  // namespace kvik::onnx
