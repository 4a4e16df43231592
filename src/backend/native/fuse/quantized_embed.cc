// A lookup in a table of codes and its dequantization become one embedding op.
#include <fmt/format.h>

#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

bool is_one_number(const Plan& plan, const Op& op, size_t i) {
  return op.in.size() <= i || !op.in[i] || (op.in[i].is_constant() && plan.constants[static_cast<size_t>(op.in[i].index)].size() == 1);
}

bool match_quantized_embed(Rewriter& rewriter, OpIndex i) {
  Plan& plan = rewriter.plan();
  const Op& op = rewriter.op(i);
  const onnx::Node* dequantize = reference_node(plan, &op, "DequantizeLinear");
  if (dequantize == nullptr || op.in.size() < 2 || !op.in[1] || !is_one_number(plan, op, 1) || !is_one_number(plan, op, 2)) return false;
  const Op* rows = plan.producer(op.in[0]);
  const onnx::Node* gather = reference_node(plan, rows, "Gather");
  if (gather == nullptr || gather->int_or("axis", 0) != 0 || !rows->in[0].is_constant()) return false;
  const Input token = rows->in[1];
  const Tensor& codes = plan.constants[static_cast<size_t>(rows->in[0].index)];
  const bool integers =
      token.is_value() && token.size == 1 && (plan.value(token.index).dtype == DType::kI64 || plan.value(token.index).dtype == DType::kI32);
  const bool bytes = codes.dtype() == DType::kU8 || codes.dtype() == DType::kI8;
  if (!integers || !bytes || codes.rank() != 2 || plan.value(op.out.front()).size != codes.dim(1)) return false;
  if (plan.value(op.out.front()).dtype != DType::kF32) return false;
  WeightPart part;
  const std::string name = plan.value(op.out.front()).name;
  part.n_major = true;
  part.n = codes.dim(0);
  part.k = codes.dim(1);
  part.quantization = quantization_of(*dequantize);
  const auto add = [&](const char* what, const Input& input) {
    return plan.add_tensor(fmt::format("{} of {}", what, name), plan.constants[static_cast<size_t>(input.index)]);
  };
  part.value = add("codes", rows->in[0]);
  part.scales = add("scales", op.in[1]);
  if (op.in.size() > 2 && op.in[2]) part.zero_points = add("zero points", op.in[2]);
  plan.weights.push_back({part.k, part.n, {part}});
  rewriter.become(i, Embed{static_cast<int>(plan.weights.size() - 1)}, {token});
  return true;
}

}  // namespace

int fuse_quantized_embed(Plan& plan) { return rewrite_each(plan, "quantized_embed", match_quantized_embed); }

}  // namespace kvik::native
