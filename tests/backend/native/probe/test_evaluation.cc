#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

#include "backend/native/compile.h"
#include "backend/native/probe/evaluation.h"
#include "kvik/error.h"
#include "support/model_writer.h"

namespace kvik::native {
namespace {

// A model of a megabyte, in which a constant takes ten thousand million multiplications.
std::filesystem::path hostile_model() {
  constexpr int64_t kLong = 200'000, kShort = 100'000;
  testing_support::ModelWriter w;
  w.input("input_ids", DType::kI64, {"batch", "sequence"});
  w.weight("table", DType::kF32, {11, 4}, std::string(11 * 4 * 4, '\0'));
  w.weight("head", DType::kF32, {4, 11}, std::string(4 * 11 * 4, '\0'));
  w.weight("signal", DType::kF32, {1, 1, kLong}, std::string(kLong * 4, '\0'));
  w.weight("kernel", DType::kF32, {1, 1, kShort}, std::string(kShort * 4, '\0'));
  w.node("Conv", {"signal", "kernel"}, {"convolved"});
  w.node("ReduceMax", {"convolved"}, {"bias"});
  w.node("Gather", {"table", "input_ids"}, {"embedded"});
  w.node("Add", {"embedded", "bias"}, {"hidden"});
  w.node("MatMul", {"hidden", "head"}, {"logits"});
  w.output("logits", DType::kF32, {"batch", "sequence", "11"});
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "hostile-work.onnx";
  std::ofstream(path, std::ios::binary) << w.bytes();
  return path;
}

TEST(Evaluation, AConstantThatWouldTakeHoursIsRefusedWithItsNode) {
  const analysis::Signature signature = analysis::analyze(hostile_model());
  const Outcome<Program> program = compile_file(signature.files.at(0));
  ASSERT_NE(program.refusal(), nullptr);
  EXPECT_THAT(program.sentence(), testing::AllOf(testing::HasSubstr("Conv"), testing::HasSubstr("steps")));
}

TEST(Evaluation, NodesShareOneBudgetOfSteps) {
  const onnx::Node product = {.op = "MatMul", .opset = 13, .inputs = {0, 1}, .outputs = {2}};
  const ValueOf value_of = [](onnx::ValueId) { return Tensor(DType::kF32, {10, 10}); };
  WorkBudget budget{.steps_left = 2500};
  EXPECT_NO_THROW(run_node(product, value_of, budget));
  EXPECT_NO_THROW(run_node(product, value_of, budget));
  EXPECT_THROW(run_node(product, value_of, budget), Error);
}

}  // namespace
}  // namespace kvik::native
