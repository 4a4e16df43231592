// DynamicQuantizeLinear, MatMulInteger and the multiplication by both scales (the last two may be one operator): one matmul that quantizes
// each row by itself. QuantizeLinear and a product with both scales: the same with one scale for all rows.
#include <algorithm>
#include <fmt/format.h>

#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

// The op that computes the input, past casts that are exact for such sums.
const Op* through_cast(const Plan& plan, const Input& input) {
  const Op* op = plan.producer(input);
  return reference_node(plan, op, "Cast") != nullptr && plan.has_one_consumer(input.index) ? plan.producer(op->in[0]) : op;
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
    if (mul != nullptr && mul->op == Binary::kMul && depth < 3) {
      collect(plan, *made, depth + 1, factors);
    } else {
      (input.is_constant() ? factors.constants : factors.values).push_back(input);
    }
  }
}

// Rows before they were quantized.
struct PlainRows {
  Input x;
  float scale = 0.0f;  // of all rows; 0: each row has its own
  int32_t zero_point = 0;
};

struct IntegerProduct {
  const Op* op = nullptr;  // MatMulInteger, or MatMulIntegerToFloat
  PlainRows rows;
  Input zero_points;  // of the matrix
  std::vector<Input> scales;
  Input bias;
};

struct Quantized {
  Input rows, scale, zero_point;
};

// The input of the QuantizeLinear that computed these codes, if its scale and zero point are those of the product.
std::optional<PlainRows> before_fixed_quantization(const Plan& plan, const Quantized& quantized) {
  const Op* op = plan.producer(quantized.rows);
  const onnx::Node* node = reference_node(plan, op, "QuantizeLinear");
  if (node == nullptr || node->has("output_dtype") || !op->in[0].is_value()) return {};
  const auto constant = [&](const Input& input) { return &plan.constants[static_cast<size_t>(input.index)]; };
  const std::optional<CodeGrid> to = grid_of(plan, *op, DType::kU8);
  if (!to || (to->codes != DType::kU8 && to->codes != DType::kI8) || to->codes != plan.value(quantized.rows.index).dtype) return {};
  if (!quantized.scale.is_constant() || (quantized.zero_point && !quantized.zero_point.is_constant())) return {};
  const std::optional<CodeGrid> undone =
      code_grid(*constant(quantized.scale), quantized.zero_point ? constant(quantized.zero_point) : nullptr, to->codes);
  if (!undone || undone->scale != to->scale || undone->zero_point != to->zero_point || to->scale <= 0) return {};
  return PlainRows{op->in[0], to->scale, static_cast<int32_t>(to->zero_point) + (to->codes == DType::kI8 ? 128 : 0)};
}

// The input of the DynamicQuantizeLinear that computed these codes.
std::optional<PlainRows> before_quantization(const Plan& plan, const Quantized& quantized) {
  const Op* op = plan.producer(quantized.rows);
  if (reference_node(plan, op, "DynamicQuantizeLinear") == nullptr || op->out.size() != 3) return {};
  const auto is = [&](const Input& input, size_t output) { return op->out[output] != kNoIndex && input == plan.whole(op->out[output]); };
  if (!is(quantized.rows, 0) || !is(quantized.scale, 1) || !is(quantized.zero_point, 2)) return {};
  return PlainRows{op->in[0]};
}

Input input_of(const Op& op, size_t i) { return i < op.in.size() ? op.in[i] : Input{}; }

// `sum`: the integer product; `scale`: the second output of the op that quantized its rows.
std::optional<IntegerProduct> spelled_out(const Plan& plan, const Input& sum, const Input& scale, const std::vector<Input>& scales) {
  const Op* op = through_cast(plan, sum);
  if (reference_node(plan, op, "MatMulInteger") == nullptr) return {};
  const std::optional<PlainRows> rows = before_quantization(plan, {input_of(*op, 0), scale, input_of(*op, 2)});
  if (!rows) return {};
  return IntegerProduct{op, *rows, input_of(*op, 3), scales, {}};
}

std::optional<IntegerProduct> find(const Plan& plan, const Op& op) {
  if (reference_node(plan, &op, "MatMulIntegerToFloat") != nullptr) {
    const Quantized quantized = {input_of(op, 0), input_of(op, 2), input_of(op, 4)};
    std::optional<PlainRows> rows = before_quantization(plan, quantized);
    if (!rows) rows = before_fixed_quantization(plan, quantized);
    if (!rows) return {};
    return IntegerProduct{&op, *rows, input_of(op, 5), {input_of(op, 3)}, input_of(op, 6)};
  }
  const BinaryOp* mul = op.as<BinaryOp>();
  if (mul == nullptr || mul->op != Binary::kMul) return {};
  Factors factors;
  collect(plan, op, 0, factors);
  if (factors.values.size() != 2 || factors.constants.empty()) return {};
  const auto product = spelled_out(plan, factors.values[0], factors.values[1], factors.constants);
  return product ? product : spelled_out(plan, factors.values[1], factors.values[0], factors.constants);
}

// The scale of each of the n columns; empty if they do not match.
std::vector<float> column_scales(const Plan& plan, const std::vector<Input>& constants, int64_t n) {
  std::vector<float> scales(static_cast<size_t>(n), 1.0f);
  for (const Input& constant : constants) {
    const std::span<const float> values = plan.floats(constant);
    if (values.size() != 1 && static_cast<int64_t>(values.size()) != n) return {};
    for (size_t i = 0; i < scales.size(); ++i) scales[i] *= values[values.size() == 1 ? 0 : i];
  }
  return scales;
}

bool match_integer_matmul(Rewriter& rewriter, OpIndex i) {
  Plan& plan = rewriter.plan();
  const Op& op = rewriter.op(i);
  if (op.selection != kNoIndex || op.out.size() != 1) return false;
  const std::optional<IntegerProduct> found = find(plan, op);
  if (!found || !found->op->in[1].is_constant() || (found->zero_points && !found->zero_points.is_constant())) return false;
  const Tensor codes = plan.constants[static_cast<size_t>(found->op->in[1].index)];
  const Dims& dims = codes.dims();
  if (dims.size() != 2 || found->rows.x.size != dims[0] || plan.value(op.out.front()).size != dims[1]) return false;
  if (found->bias && plan.floats(found->bias).size() != static_cast<size_t>(dims[1])) return false;
  const std::vector<float> scales = column_scales(plan, found->scales, dims[1]);
  if (scales.empty()) return false;
  WeightPart part;
  part.k = dims[0];
  part.n = dims[1];
  part.quantization = quantization_of(plan.node(*found->op));
  const std::string name = plan.value(op.out.front()).name;
  part.value = plan.add_tensor(fmt::format("codes of {}", name), codes);
  part.scales = plan.add_tensor(fmt::format("scales of {}", name), Tensor::of<float>({part.n}, scales));
  if (found->zero_points) {
    const Tensor zero_points = plan.constants[static_cast<size_t>(found->zero_points.index)];
    part.zero_points = plan.add_tensor(fmt::format("zero points of {}", name), zero_points);
  }
  plan.weights.push_back({part.k, part.n, {part}, Activations::kBytes, found->rows.scale, found->rows.zero_point});
  const Input x = found->rows.x, bias = found->bias;
  rewriter.become(i, Matmul{{static_cast<int>(plan.weights.size() - 1)}}, {x, bias});
  return true;
}

}  // namespace

int fuse_integer_matmul(Plan& plan) {
  const size_t n_before = plan.weights.size();
  const int count = rewrite_each_from_end(plan, "integer_matmul", match_integer_matmul);
  const auto n_dynamic = std::count_if(plan.weights.begin() + static_cast<ptrdiff_t>(n_before), plan.weights.end(),
                                       [](const PlanWeight& weight) { return weight.row_scale == 0; });
  if (n_dynamic > 0) plan.notes.push_back(fmt::format("activations of {} integer products are quantized per row", n_dynamic));
  return count;
}

}  // namespace kvik::native
