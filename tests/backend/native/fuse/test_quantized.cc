// Operators of quantized graphs run by their reference kernels until they are fused; here both are run.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_runner.h"
#include "support.h"

namespace kvik::native::testing_support {
namespace {

constexpr int64_t kK = 12, kN = 5;

// A plan over nodes of a graph of its own.
class NodePlan {
 public:
  NodePlan() {
    plan.nodes = nodes;
    plan.embedding = plan.add_value("x", kK);
  }

  struct Made {
    int64_t size;
    DType dtype;
  };
  // The node on these inputs, which are constants of the graph or values.
  std::vector<Input> node(std::string_view op, std::string_view domain, const std::vector<Input>& in, const std::vector<Made>& outs) {
    onnx::Node node;
    node.op = op;
    node.domain = domain;
    node.opset = domain.empty() ? 13 : 1;
    if (op == "Cast") node.attributes.push_back({"to", int64_t{1}});
    Op made{ReferenceOp{}, in, {}};
    auto& args = std::get<ReferenceOp>(made.args);
    for (const Input& input : in) {
      node.inputs.push_back(static_cast<onnx::ValueId>(node.inputs.size()));
      args.in_dims.push_back(input.is_constant() ? plan.constants[static_cast<size_t>(input.index)].dims()
                             : input.size == 1   ? Dims{}
                                                 : Dims{1, input.size});
      args.in_bool.push_back(false);
    }
    std::vector<Input> results;
    for (const Made& out : outs) {
      node.outputs.push_back(static_cast<onnx::ValueId>(node.outputs.size()));
      made.out.push_back(plan.add_value("made", out.size, out.dtype));
      args.out_dims.push_back(out.size == 1 ? Dims{} : Dims{1, out.size});
      results.push_back(plan.whole(made.out.back()));
    }
    made.node = nodes->add_single_node(node);
    plan.ops.push_back(std::move(made));
    return results;
  }
  Input constant(const Tensor& tensor) {
    const int index = plan.add_constant(tensor);
    return {Input::Kind::kConstant, index, 0, tensor.size()};
  }
  Input binary(Binary op, const Input& a, const Input& b, Spread spread_b) {
    const ValueIndex made = plan.add_value("v", a.size);
    plan.ops.push_back({BinaryOp{op, Spread::kAll, spread_b}, {a, b}, {made}});
    return plan.whole(made);
  }
  Input x() const { return plan.whole(plan.embedding); }

  std::vector<Input> quantized() { return node("DynamicQuantizeLinear", "", {x()}, {{kK, DType::kU8}, {1, DType::kF32}, {1, DType::kU8}}); }
  Input codes() {
    std::vector<int8_t> numbers;
    for (int i = 0; i < kK * kN; ++i) numbers.push_back(static_cast<int8_t>(i * 37 % 251 - 120));
    return constant(Tensor::of<int8_t>({kK, kN}, numbers));
  }
  // (rows . codes) as floats.
  Input integer_product(const std::vector<Input>& rows) {
    const Input zero = constant(Tensor::scalar<int8_t>(3));
    const Input sum = node("MatMulInteger", "", {rows[0], codes(), rows[2], zero}, {{kN, DType::kI32}})[0];
    return node("Cast", "", {sum}, {{kN, DType::kF32}})[0];
  }

  std::shared_ptr<OwnedGraph> nodes = std::make_shared<OwnedGraph>();
  Plan plan;
};

// Fused and unfused give the same.
void expect_fused(Plan& plan, const Input& output, int (*pass)(Plan&), std::string_view expected) {
  plan.output = output;
  plan.index();
  const std::vector<float> before = outputs(std::make_shared<Plan>(plan));
  EXPECT_EQ(pass(plan), 1);
  EXPECT_EQ(kinds(plan), expected);
  const std::vector<float> after = outputs(std::make_shared<Plan>(plan));
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(before[i], after[i], 1e-4 * (1 + std::abs(before[i])));
}

TEST(FuseIntegerMatmul, ADynamicallyQuantizedProductIsOneProduct) {
  for (const bool scales_first : {false, true}) {
    NodePlan p;
    const std::vector<Input> rows = p.quantized();
    const Input sum = p.integer_product(rows), scale = p.constant(Tensor::of<float>({1}, {0.01f}));
    const Input y = scales_first ? p.binary(Binary::kMul, sum, p.binary(Binary::kMul, rows[1], scale, Spread::kAll), Spread::kOne)
                                 : p.binary(Binary::kMul, p.binary(Binary::kMul, sum, rows[1], Spread::kOne), scale, Spread::kOne);
    expect_fused(p.plan, y, fuse_integer_matmul, "matmul");
    EXPECT_EQ(p.plan.weights[0].activations, Activations::kBytes);
    EXPECT_EQ(p.plan.notes.size(), 1u);
  }
}

TEST(FuseIntegerMatmul, ScalesMayBeOneForEachColumn) {
  NodePlan p;
  const std::vector<Input> rows = p.quantized();
  const Input sum = p.integer_product(rows), scales = p.constant(Tensor::of<float>({kN}, {0.01f, 0.02f, 0.03f, 0.5f, 0.1f}));
  const Input scaled = p.binary(Binary::kMul, p.binary(Binary::kMul, sum, rows[1], Spread::kOne), scales, Spread::kAll);
  expect_fused(p.plan, scaled, fuse_integer_matmul, "matmul");
}

TEST(FuseIntegerMatmul, TheOperatorThatDoesAllOfItIsOneProductToo) {
  NodePlan p;
  const std::vector<Input> rows = p.quantized();
  const Input scales = p.constant(Tensor::of<float>({kN}, {0.01f, 0.02f, 0.03f, 0.5f, 0.1f}));
  const Input zero = p.constant(Tensor::scalar<int8_t>(3)), bias = p.constant(Tensor::of<float>({kN}, {1, 2, 3, 4, 5}));
  const Input y =
      p.node("MatMulIntegerToFloat", "com.microsoft", {rows[0], p.codes(), rows[1], scales, rows[2], zero, bias}, {{kN, DType::kF32}})[0];
  expect_fused(p.plan, y, fuse_integer_matmul, "matmul");
}

// As a static quantizer writes it: codes of either type, one scale for all rows.
TEST(FuseIntegerMatmul, RowsOfAConstantScaleAreQuantizedByThatScale) {
  for (const bool is_signed : {false, true}) {
    NodePlan p;
    const Input scale = p.constant(Tensor::scalar<float>(0.02f)), scales = p.constant(Tensor::scalar<float>(0.03f));
    const Input zero = p.constant(is_signed ? Tensor::scalar<int8_t>(-9) : Tensor::scalar<uint8_t>(100));
    const Input weight_zero = p.constant(Tensor::scalar<int8_t>(3));
    const Input rows = p.node("QuantizeLinear", "", {p.x(), scale, zero}, {{kK, is_signed ? DType::kI8 : DType::kU8}})[0];
    const Input y =
        p.node("MatMulIntegerToFloat", "com.microsoft", {rows, p.codes(), scale, scales, zero, weight_zero}, {{kN, DType::kF32}})[0];
    expect_fused(p.plan, y, fuse_integer_matmul, "matmul");
    EXPECT_EQ(p.plan.weights.back().row_scale, 0.02f);
    EXPECT_EQ(p.plan.weights.back().row_zero_point, is_signed ? 119 : 100);
    EXPECT_THAT(p.plan.notes, testing::IsEmpty());
  }
}

TEST(FuseIntegerMatmul, AProductThatUndoesAnotherScaleOrZeroPointIsLeft) {
  for (const bool other_scale : {false, true}) {
    NodePlan p;
    const Input scale = p.constant(Tensor::scalar<float>(0.02f)), zero = p.constant(Tensor::scalar<uint8_t>(100));
    const Input undone = other_scale ? p.constant(Tensor::scalar<float>(0.03f)) : scale;
    const Input undone_zero = other_scale ? zero : p.constant(Tensor::scalar<uint8_t>(99));
    const Input rows = p.node("QuantizeLinear", "", {p.x(), scale, zero}, {{kK, DType::kU8}})[0];
    p.plan.output = p.node("MatMulIntegerToFloat", "com.microsoft", {rows, p.codes(), undone, scale, undone_zero}, {{kN, DType::kF32}})[0];
    p.plan.index();
    EXPECT_EQ(fuse_integer_matmul(p.plan), 0);
  }
}

TEST(FuseIntegerMatmul, AScaleOfOtherRowsIsNoneOfThisProduct) {
  NodePlan p;
  const std::vector<Input> rows = p.quantized(), others = p.quantized();
  const Input sum = p.integer_product(rows), scale = p.constant(Tensor::of<float>({1}, {0.01f}));
  p.plan.output = p.binary(Binary::kMul, p.binary(Binary::kMul, sum, others[1], Spread::kOne), scale, Spread::kOne);
  p.plan.index();
  EXPECT_EQ(fuse_integer_matmul(p.plan), 0);
}

TEST(FuseFakeQuantize, RoundingToAGridIsDoneInFloats) {
  for (const bool shifted : {false, true}) {
    NodePlan p;
    const Input scale = p.constant(Tensor::scalar<float>(0.02f)), zero = p.constant(Tensor::scalar<uint8_t>(100));
    const Input other = shifted ? p.constant(Tensor::scalar<uint8_t>(90)) : zero;
    const Input codes = p.node("QuantizeLinear", "", {p.x(), scale, zero}, {{kK, DType::kU8}})[0];
    const Input y = p.node("DequantizeLinear", "", {codes, scale, other}, {{kK, DType::kF32}})[0];
    expect_fused(p.plan, y, fuse_fake_quantize, shifted ? "binary unary clip binary binary" : "binary unary clip binary");
  }
}

TEST(FuseFakeQuantize, OneScaleForEachElementIsLeft) {
  NodePlan p;
  const Input scales = p.constant(Tensor::of<float>({kK}, std::vector<float>(kK, 0.02f)));
  const Input zeros = p.constant(Tensor::of<int8_t>({kK}, std::vector<int8_t>(kK, 3)));
  const Input codes = p.node("QuantizeLinear", "", {p.x(), scales, zeros}, {{kK, DType::kI8}})[0];
  p.plan.output = p.node("DequantizeLinear", "", {codes, scales, zeros}, {{kK, DType::kF32}})[0];
  p.plan.index();
  EXPECT_EQ(fuse_fake_quantize(p.plan), 0);
}

}  // namespace
}  // namespace kvik::native::testing_support
