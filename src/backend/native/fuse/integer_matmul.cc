// DynamicQuantizeLinear, MatMulInteger and the multiplication by both scales: one product of a row that is quantised by itself.
#include <fmt/format.h>

#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

const onnx::Node* node_of(const Plan& plan, const Op* op, std::string_view name) {
  if (op == nullptr || op->as<ReferenceOp>() == nullptr || op->node == onnx::kNoNode) return nullptr;
  const onnx::Node& node = plan.flat->graph.nodes[static_cast<size_t>(op->node)];
  return node.op == name ? &node : nullptr;
}

// The operation that makes the input, through casts that are exact for such sums.
const Op* through_cast(const Plan& plan, const Input& input) {
  const Op* op = plan.producer(input);
  return node_of(plan, op, "Cast") != nullptr && plan.has_one_consumer(input.index) ? plan.producer(op->in[0]) : op;
}

// Factors of a product, of any spread: scales may be multiplied with each other first.
struct Factors {
  std::vector<Input> values;
  std::vector<Input> constants;
};

void collect(const Plan& plan, const Op& op, int depth, Factors& factors) {
  for (const Input& input : op.in) {
    const Op* made = plan.producer(input);
    const BinaryOp* mul = made == nullptr ? nullptr : made->as<BinaryOp>();
    if (mul != nullptr && mul->op == cpu::Binary::kMul && depth < 3) {
      collect(plan, *made, depth + 1, factors);
    } else {
      (input.is_constant() ? factors.constants : factors.values).push_back(input);
    }
  }
}

struct Found {
  const Op* quantise = nullptr;  // DynamicQuantizeLinear
  const Op* product = nullptr;   // MatMulInteger
  Input x;
};

// sum is the integer product, scale the second output of what quantised its rows.
std::optional<Found> integer_product(const Plan& plan, const Input& sum, const Input& scale) {
  Found found;
  found.product = through_cast(plan, sum);
  if (node_of(plan, found.product, "MatMulInteger") == nullptr || found.product->in.size() < 3) return {};
  const Input& rows = found.product->in[0];
  found.quantise = plan.producer(rows);
  if (node_of(plan, found.quantise, "DynamicQuantizeLinear") == nullptr || found.quantise->out.size() != 3) return {};
  const std::vector<ValueIndex>& made = found.quantise->out;
  const bool fits = rows == plan.whole(made[0]) && made[1] != kNoIndex && scale == plan.whole(made[1]) && made[2] != kNoIndex &&
                    found.product->in[2] == plan.whole(made[2]);
  if (!fits || !found.product->in[1].is_constant()) return {};
  if (found.product->in.size() > 3 && found.product->in[3] && !found.product->in[3].is_constant()) return {};
  found.x = found.quantise->in[0];
  return found;
}

// Scales as they meet the n columns; empty where they do not.
std::vector<float> column_scales(const Plan& plan, const std::vector<Input>& constants, int64_t n) {
  std::vector<float> scales(static_cast<size_t>(n), 1.0f);
  for (const Input& constant : constants) {
    const std::span<const float> values = plan.floats(constant);
    if (values.size() != 1 && static_cast<int64_t>(values.size()) != n) return {};
    for (size_t i = 0; i < scales.size(); ++i) scales[i] *= values[values.size() == 1 ? 0 : i];
  }
  return scales;
}

bool match(Rewriter& rewriter, OpIndex i) {
  Plan& plan = rewriter.plan();
  const Op& op = rewriter.op(i);
  const BinaryOp* mul = op.as<BinaryOp>();
  if (mul == nullptr || mul->op != cpu::Binary::kMul || op.selection != kNoIndex) return false;
  Factors factors;
  collect(plan, op, 0, factors);
  if (factors.values.size() != 2 || factors.constants.empty()) return false;
  std::optional<Found> found = integer_product(plan, factors.values[0], factors.values[1]);
  if (!found) found = integer_product(plan, factors.values[1], factors.values[0]);
  if (!found) return false;
  const onnx::Node& node = plan.flat->graph.nodes[static_cast<size_t>(found->product->node)];
  const Dims& dims = plan.constants[static_cast<size_t>(found->product->in[1].index)].dims();
  if (dims.size() != 2 || found->x.size != dims[0] || plan.value(op.out.front()).size != dims[1]) return false;
  const std::vector<float> scales = column_scales(plan, factors.constants, dims[1]);
  if (scales.empty()) return false;
  WeightPart part;
  part.k = dims[0];
  part.n = dims[1];
  part.value = node.inputs[1];
  part.quantised_by = found->product->node;
  part.zero_points = found->product->in.size() > 3 && found->product->in[3] ? node.inputs[3] : onnx::kNoValue;
  part.scales =
      plan.flat->add_constant(fmt::format("scales of {}", plan.flat->graph.name_of(part.value)), Tensor::of<float>({part.n}, scales));
  plan.weights.push_back({part.k, part.n, {part}, Activations::kBytes});
  rewriter.become(i, Matmul{{static_cast<int>(plan.weights.size() - 1)}}, {found->x, Input{}});
  return true;
}

}  // namespace

int fuse_integer_matmul(Plan& target) {
  Rewriter plan(target, "integer_matmul");
  for (OpIndex i = plan.size(); i-- > 0;) {
    if (!plan.is_dead(i) && match(plan, i)) plan.count();
  }
  const int count = plan.finish();
  if (count > 0) target.notes.push_back(fmt::format("activations of {} integer products are quantised per row", count));
  return count;
}

}  // namespace kvik::native
