// A row that did not choose an expert gets what its nodes give for no rows, whether they are run or not.
#include <cmath>
#include <gtest/gtest.h>

#include "backend/native/fuse/plan_runner.h"

namespace kvik::native {
namespace {

constexpr int64_t kWidth = 6;

class Region {
 public:
  Region() {
    plan->nodes = nodes;
    plan->embedding = plan->add_value("x", kWidth);
  }

  // A node by its reference kernel; dims of -1 are the selection's.
  Input node(onnx::Node node, const std::vector<Input>& in, const std::vector<Dims>& in_dims, const Dims& out_dims, DType dtype) {
    node.opset = 18;
    Dims one = out_dims;
    for (int64_t& dim : one) dim = std::abs(dim);
    const ValueIndex made = plan->add_value("made", element_count(one), dtype);
    if (out_dims != one) plan->values.back().selection = made;
    Op op{ReferenceOp{in_dims, {out_dims}, std::vector<bool>(in.size(), false)}, in, {made}};
    for (const Input& input : in) {  // the value that counts the rows is read too
      const ValueIndex selection = input.is_value() ? plan->value(input.index).selection : kNoIndex;
      if (selection != kNoIndex) op.in.push_back(plan->whole(selection));
    }
    op.node = nodes->add_single_node(node);
    plan->ops.push_back(std::move(op));
    return plan->whole(made);
  }
  Input selected(Op::Args args, const std::vector<Input>& in, int64_t size, DType dtype = DType::kF32) {
    const ValueIndex made = plan->add_value("made", size, dtype);
    plan->values.back().selection = plan->value(in[0].index).selection;
    Op op{std::move(args), in, {made}};
    op.selection = plan->values.back().selection;
    plan->ops.push_back(std::move(op));
    return plan->whole(made);
  }
  static onnx::Node named(std::string_view op, std::vector<onnx::Attribute> attributes = {}) {
    onnx::Node node;
    node.op = op;
    node.attributes = std::move(attributes);
    return node;
  }

  std::shared_ptr<OwnedGraph> nodes = std::make_shared<OwnedGraph>();
  std::shared_ptr<Plan> plan = std::make_shared<Plan>();
};

TEST(Unchosen, RowsWithoutAnExpertKeepTheirValues) {
  Region r;
  Plan& plan = *r.plan;
  const Input x = plan.whole(plan.embedding);
  const Input zero{Input::Kind::kConstant, plan.add_constant(Tensor::of<float>({1}, {0.0f})), 0, 1};
  const ValueIndex chosen = plan.add_value("chosen", 1);
  plan.ops.push_back({BinaryOp{Binary::kGreater}, {{Input::Kind::kValue, plan.embedding, 0, 1}, zero}, {chosen}});
  const Input where = r.node(Region::named("NonZero"), {plan.whole(chosen)}, {{1}}, {1, -1}, DType::kI64);
  const Input rows = r.node(Region::named("Gather", {{"axis", int64_t{0}}}), {x, where}, {{1, kWidth}, {-1}}, {-1, kWidth}, DType::kF32);
  const Input made = r.selected(UnaryOp{Unary::kExp}, {rows}, kWidth);
  Move spread;
  for (int64_t i = 0; i < kWidth; ++i) spread.runs.push_back({0, 0, i, 1});
  const Input index = r.selected(std::move(spread), {where}, kWidth, DType::kI64);
  plan.output = r.node(Region::named("ScatterElements", {{"axis", int64_t{0}}, {"reduction", std::string_view("add")}}), {x, index, made},
                       {{1, kWidth}, {-1, kWidth}, {-1, kWidth}}, {1, kWidth}, DType::kF32);
  plan.index();

  const std::vector<float> found = testing_support::outputs(r.plan);
  int n_chosen = 0, n_rows = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto position = static_cast<int64_t>(i) / kWidth, element = static_cast<int64_t>(i) % kWidth;
    const bool is_chosen = testing_support::given(position, 0) > 0;
    const float before = testing_support::given(position, element);
    EXPECT_FLOAT_EQ(found[i], is_chosen ? before + std::exp(before) : before) << position;
    n_rows += element == 0 ? 1 : 0;
    n_chosen += element == 0 && is_chosen ? 1 : 0;
  }
  EXPECT_GT(n_chosen, 0);
  EXPECT_LT(n_chosen, n_rows);
}

}  // namespace
}  // namespace kvik::native
