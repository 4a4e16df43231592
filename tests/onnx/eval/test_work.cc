// Kernels take their steps from the budget before they begin, so that small inputs cannot keep the machine busy for hours.
#include <gmock/gmock.h>

#include "onnx/eval/op.h"

namespace kvik::onnx::testing_support {
namespace {

struct WorkCase {
  std::string name;
  Op op;
  std::vector<Tensor> inputs;
  int64_t steps;
};

void PrintTo(const WorkCase& one, std::ostream* out) { *out << one.name; }

Tensor zeros(const Dims& dims) { return Tensor(DType::kF32, dims); }
Op nbits() { return Op("MatMulNBits").in("com.microsoft").set("N", 3).set("K", 32).set("block_size", 16).set("bits", 4); }

std::vector<WorkCase> cases() {
  return {
      {"MatMul", Op("MatMul"), {zeros({2, 1, 3, 4}), zeros({5, 4, 6})}, 2 * 5 * 3 * 4 * 6},
      {"MatMulOfNothing", Op("MatMul"), {zeros({3, 0}), zeros({0, 6})}, 3 * 6},
      {"Gemm", Op("Gemm").set("transA", 1), {zeros({4, 3}), zeros({4, 6})}, 3 * 4 * 6},
      {"Einsum", Op("Einsum").set("equation", "i,j,k->"), {zeros({3}), zeros({4}), zeros({5})}, 3 * 4 * 5 + 1},
      {"Conv", Op("Conv"), {zeros({2, 3, 10}), zeros({4, 3, 5})}, 2 * 4 * 6 * 3 * 5},
      {"PaddedConv", Op("Conv").list("pads", {5, 5}), {zeros({1, 1, 1}), zeros({1, 1, 1})}, 11},
      {"ConvTranspose", Op("ConvTranspose"), {zeros({1, 2, 3}), zeros({2, 4, 5})}, 4 * 7 + 6 * 4 * 5},
      {"MaxPool", Op("MaxPool").list("kernel_shape", {4}), {zeros({1, 2, 10})}, 2 * 7 * 4},
      {"MatMulInteger", Op("MatMulInteger"), {Tensor(DType::kI8, {3, 4}), Tensor(DType::kI8, {4, 6})}, 3 * 4 * 6},
      {"MatMulNBits", nbits(), {zeros({2, 32}), Tensor(DType::kU8, {3, 2, 8}), zeros({6})}, 2 * 32 * 3},
      {"Attention", Op("Attention", 23), {zeros({1, 2, 3, 4}), zeros({1, 2, 5, 4}), zeros({1, 2, 5, 6})}, 2 * 3 * 5 * (4 + 6)},
      {"DFT", Op("DFT", 20), {zeros({2, 8, 1})}, 2 * 8 * 2 * 8},
      {"HannWindow", Op("HannWindow"), {ints({}, {100})}, 100},
      {"Resize", Op("Resize"), {zeros({2}), Tensor(), floats({1}, {50})}, 100 + 100 + 100 * 2},
      {"LSTM", Op("LSTM").outputs(3), {zeros({7, 2, 3}), zeros({1, 20, 3}), zeros({1, 20, 5})}, 7 * 2 * 20 * (3 + 5)},
  };
}

class Works : public testing::TestWithParam<WorkCase> {};

TEST_P(Works, ChargesItsStepsBeforeItRuns) {
  const WorkCase& one = GetParam();
  int64_t enough = one.steps, scarce = one.steps - 1;
  EXPECT_EQ(one.op.refusal(one.inputs, Work(enough)), "");
  EXPECT_EQ(enough, 0);
  EXPECT_THAT(one.op.refusal(one.inputs, Work(scarce)), testing::HasSubstr("steps; "));
  EXPECT_EQ(one.op.refusal(one.inputs), "") << "without a limit";
}

INSTANTIATE_TEST_SUITE_P(All, Works, testing::ValuesIn(cases()), [](const auto& one) { return one.param.name; });

TEST(Work, OverflowingNumberOfStepsIsRefused) {
  int64_t left = INT64_MAX;
  EXPECT_THROW(Work(left).take({INT64_MAX, INT64_MAX}), Error);
  EXPECT_NO_THROW(Work(left).take({INT64_MAX, 0}));
  EXPECT_NO_THROW(Work(left).take({-5}));
  EXPECT_EQ(left, INT64_MAX);
}

}  // namespace
}  // namespace kvik::onnx::testing_support
