// A lowered node computes the same as its reference kernel, for each row by itself.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "backend/native/one_node.h"
#include "kvik/error.h"

namespace kvik::native {
namespace {

using testing_support::NodeAnswer;
using testing_support::NodeCase;
using testing_support::NodeInput;
using testing_support::noise_tensor;
using testing_support::run_node;

NodeInput row(Dims dims) { return NodeInput::row(std::move(dims)); }
NodeInput weights(Dims dims) { return NodeInput::fixed(noise_tensor(std::move(dims), 3)); }
NodeInput numbers(std::vector<int64_t> values) {
  return NodeInput::fixed(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values));
}
NodeInput number(float value) { return NodeInput::fixed(Tensor::scalar(value)); }

// How far a result may be from the reference: absolutely, and in parts of it.
struct Allowed {
  double absolute = 1e-4, relative = 0;
};

void expect_as_reference(const NodeCase& one, const Allowed& allowed = {}) {
  const NodeAnswer answer = run_node(one);
  EXPECT_THAT(answer.kinds, testing::Not(testing::Contains("reference"))) << one.op;
  ASSERT_EQ(answer.native.size(), answer.reference.size()) << one.op;
  for (size_t i = 0; i < answer.native.size(); ++i) {
    const double tolerance = allowed.absolute + allowed.relative * static_cast<double>(std::abs(answer.reference[i]));
    ASSERT_NEAR(answer.native[i], answer.reference[i], tolerance) << one.op << " at " << i << " of " << fmt::format("{}", answer.kinds);
  }
}

TEST(Lower, OperandsAreSpreadAsTheReferenceDoes) {
  for (const Dims& other : std::vector<Dims>{{1, 4, 6}, {4, 6}, {6}, {1}, {}, {4, 1}, {1, 4, 1}}) {
    for (const char* op : {"Add", "Sub", "Mul", "Div", "Min", "Max"}) {
      expect_as_reference({op, {row({1, 4, 6}), weights(other)}}, {1e-6, 1e-6});
      if (!other.empty()) expect_as_reference({op, {row(other), row({1, 4, 6})}}, {1e-6, 1e-6});
    }
  }
}

TEST(Lower, BothOperandsMayBeSpread) {
  expect_as_reference({"Add", {row({4, 1}), row({1, 6})}});
  expect_as_reference({"Add", {row({2, 1, 3}), row({5, 1})}});
  expect_as_reference({"Add", {row({2, 5, 3}), weights({2, 1, 3})}});
  expect_as_reference({"Where", {NodeInput::fixed(Tensor::of<bool>({4, 1}, {true, false, true, false})), row({1, 6}), weights({4, 6})}});
}

TEST(Lower, FunctionsOfOneElement) {
  for (const char* op : {"Neg", "Abs", "Exp", "Tanh", "Erf", "Sigmoid", "Relu", "Softplus", "Sin", "Cos", "Floor", "Ceil", "Round", "Sign"})
    expect_as_reference({op, {row({3, 7})}});
  expect_as_reference({"Gelu", {row({9})}, {}, "", 20});
  expect_as_reference({"Gelu", {row({9})}, {{"approximate", std::string_view("tanh")}}, "", 20});
  expect_as_reference({"FastGelu", {row({2, 9}), weights({9})}, {}, "com.microsoft"});
  expect_as_reference({"QuickGelu", {row({9})}, {}, "com.microsoft"});
  expect_as_reference({"Clip", {row({9}), number(-0.5f), number(0.25f)}});
  expect_as_reference({"Pow", {row({9}), number(2.0f)}});
  expect_as_reference({"IsNaN", {row({9})}});
  expect_as_reference({"Less", {row({9}), weights({9})}});
}

TEST(Lower, ActivationsWithoutAKernelAreExpanded) {
  for (const char* op : {"HardSwish", "HardSigmoid", "Elu", "Celu", "Selu", "LeakyRelu", "ThresholdedRelu", "Softsign", "Mish"})
    expect_as_reference({op, {row({3, 7})}});
  expect_as_reference({"Elu", {row({3, 7})}, {{"alpha", 0.3f}}});
  expect_as_reference({"Celu", {row({3, 7})}, {{"alpha", 0.3f}}});
  expect_as_reference({"HardSigmoid", {row({3, 7})}, {{"alpha", 0.6f}, {"beta", 0.1f}}});
  expect_as_reference({"QuickGelu", {row({9})}, {{"alpha", 1.1f}}, "com.microsoft"});
  expect_as_reference({"Sum", {row({3, 7}), weights({3, 7}), row({1, 3, 7})}});
}

TEST(Lower, AGatedActivationIsAnActivationAndAProduct) {
  expect_as_reference({"SwiGLU", {row({3, 7}), row({3, 7})}, {}, "", 28});
  expect_as_reference({"SwiGLU", {row({3, 7}), weights({3, 7})}, {{"alpha", 1.7f}}, "", 28});
}

TEST(Lower, SumsOverLeadingAxesAreSumsOfParts) {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"})
    expect_as_reference({op, {row({1, 3, 7}), numbers({1})}, {{"keepdims", int64_t{0}}}});
}

TEST(Lower, AConvolutionOverTheWholeInputIsAProduct) {
  expect_as_reference({"Conv", {row({1, 6, 4}), weights({6, 1, 4})}, {{"group", int64_t{6}}}});
  expect_as_reference({"Conv", {row({1, 6, 4}), weights({6, 1, 4}), weights({6})}, {{"group", int64_t{6}}}});
  expect_as_reference({"Conv", {row({1, 6, 4}), weights({5, 6, 4}), weights({5})}});
  expect_as_reference({"Conv", {row({1, 6, 4}), weights({8, 3, 4})}, {{"group", int64_t{2}}}});
}

TEST(Lower, AConvolutionThatSlidesIsLeftToTheReference) {
  const NodeAnswer answer = run_node({"Conv", {row({1, 6, 5}), weights({6, 1, 4})}, {{"group", int64_t{6}}}});
  EXPECT_THAT(answer.kinds, testing::Contains("reference"));
}

TEST(Lower, MovementIsInferredFromTheReferenceKernel) {
  expect_as_reference({"Transpose", {row({3, 4, 2})}, {{"perm", std::vector<int64_t>{2, 0, 1}}}});
  expect_as_reference({"Concat", {row({3, 2}), weights({3, 1}), row({3, 4})}, {{"axis", int64_t{1}}}});
  expect_as_reference({"Slice", {row({3, 8}), numbers({7}), numbers({0}), numbers({1}), numbers({-2})}});
  expect_as_reference({"Gather", {row({3, 8}), numbers({5, 1, 1})}, {{"axis", int64_t{1}}}});
  expect_as_reference({"Tile", {row({3, 2}), numbers({2, 3})}});
}

TEST(Lower, SlicesOfNeighborsAreNoOperations) {
  const NodeAnswer answer = run_node({"Slice", {row({12}), numbers({4}), numbers({9})}});
  EXPECT_THAT(answer.kinds, testing::IsEmpty());
  EXPECT_EQ(answer.native, answer.reference);
}

TEST(Lower, NormsSoftmaxAndReductionsOfGroupsOfARow) {
  expect_as_reference({"Softmax", {row({3, 7})}, {{"axis", int64_t{-1}}}});
  expect_as_reference({"Softmax", {row({2, 3, 4})}, {{"axis", int64_t{1}}}, "", 11});
  expect_as_reference({"LogSoftmax", {row({3, 7})}, {{"axis", int64_t{-1}}}});
  expect_as_reference({"ReduceMean", {row({3, 7}), numbers({-1})}});
  expect_as_reference({"ReduceSum", {row({1, 3, 7}), numbers({0, 2})}, {{"keepdims", int64_t{0}}}});
  expect_as_reference({"ReduceMax", {row({3, 7})}, {{"axes", std::vector<int64_t>{1}}}, "", 13});
  expect_as_reference({"LayerNormalization", {row({3, 8}), weights({8}), weights({8})}, {{"epsilon", 1e-3f}}});
  expect_as_reference({"LayerNormalization", {row({3, 8}), weights({3, 8})}, {{"axis", int64_t{0}}}});
  expect_as_reference({"RMSNormalization", {row({3, 8}), weights({8})}, {}, "", 23});
  expect_as_reference(
      {"SkipLayerNormalization", {row({1, 1, 8}), row({1, 1, 8}), weights({8}), weights({8}), weights({8})}, {}, "com.microsoft"});
}

TEST(Lower, ProductsByConstantMatrices) {
  expect_as_reference({"MatMul", {row({1, 1, 24}), weights({24, 40})}});
  expect_as_reference({"MatMul", {row({1, 5, 24}), weights({24, 7})}});
  expect_as_reference({"MatMul", {row({3, 1, 8}), weights({3, 8, 5})}});
  expect_as_reference({"MatMul", {row({1, 1, 8}), weights({3, 8, 5})}});
  expect_as_reference({"MatMul", {row({3, 2, 8}), weights({3, 8, 5})}});
  expect_as_reference({"Gemm", {row({1, 24}), weights({40, 24}), weights({40})}, {{"transB", int64_t{1}}}});
  expect_as_reference({"Gemm", {row({2, 24}), weights({24, 40}), weights({40})}, {{"alpha", 0.5f}}});
  expect_as_reference({"FusedMatMul", {row({1, 24}), weights({40, 24})}, {{"transB", int64_t{1}}, {"alpha", 0.125f}}, "com.microsoft"});
}

TEST(Lower, NodesWithoutALoweringRunOnTheirReferenceKernel) {
  const NodeAnswer answer = run_node({"CumSum", {row({3, 8}), NodeInput::fixed(Tensor::scalar<int64_t>(1))}});
  EXPECT_THAT(answer.kinds, testing::Contains("reference"));
  EXPECT_EQ(answer.native, answer.reference);
}

// The largest error of a product in this weights format. It is scaled afterwards, because the product of the output itself keeps eight
// bits.
double worst_error(WeightChoice choice) {
  const NodeAnswer answer = run_node({"Gemm", {row({1, 96}), weights({96, 50})}, {{"alpha", 0.5f}}}, choice);
  double worst = 0;
  for (size_t i = 0; i < answer.native.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(answer.native[i]) - static_cast<double>(answer.reference[i])));
  return worst;
}

TEST(Lower, WeightsAreKeptAsAskedFor) {
  const double f32 = worst_error(WeightChoice::kF32), f16 = worst_error(WeightChoice::kF16);
  const double q8 = worst_error(WeightChoice::kQ8), q4 = worst_error(WeightChoice::kQ4);
  EXPECT_LT(f32, 1e-4);
  EXPECT_LT(f16, 2e-2);
  EXPECT_GT(f16, f32);
  EXPECT_LT(q8, 0.3);
  EXPECT_GT(q8, f16);
  EXPECT_LT(q4, 3.0);
  EXPECT_GT(q4, 2 * q8);  // these are four bits, and not eight
}

TEST(Lower, AWeightThatIsNoNumberIsNamed) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Tensor broken = noise_tensor({24, 40});
    broken.mutable_data<float>()[333] = bad;
    try {
      run_node({"MatMul", {row({1, 24}), NodeInput::fixed(broken)}});
      FAIL() << "was taken";
    } catch (const Error& e) { EXPECT_THAT(e.what(), testing::HasSubstr("'c1'")); }
  }
}

}  // namespace
}  // namespace kvik::native
