// QuantizeLinear followed by DequantizeLinear, as in exports with quantized activations, becomes rounding to a grid, in floats.
#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

bool match_fake_quantization(Rewriter& rewriter, OpIndex i) {
  Plan& plan = rewriter.plan();
  const Op& op = rewriter.op(i);
  if (reference_node(plan, &op, "DequantizeLinear") == nullptr || plan.value(op.out.front()).dtype != DType::kF32) return false;
  const Op* quantize = plan.producer(op.in[0]);
  const onnx::Node* node = reference_node(plan, quantize, "QuantizeLinear");
  if (node == nullptr || node->has("output_dtype") || !quantize->in[0].is_value()) return false;
  const std::optional<CodeGrid> to = grid_of(plan, *quantize, DType::kU8);
  const std::optional<CodeGrid> back = to ? grid_of(plan, op, to->codes) : std::nullopt;
  const std::optional<Rounding> rounding = back ? rounding_of(*to, {back->scale, to->zero_point, back->codes}) : std::nullopt;
  if (!rounding || to->codes != plan.value(op.in[0].index).dtype) return false;
  const Input x = quantize->in[0];
  const auto by = [&](Binary kind, const Input& a, float b) {
    return rewriter.insert_before(i, BinaryOp{kind, Spread::kAll, Spread::kOne}, {a, rewriter.scalar(b)}, a.size);
  };
  const Input rounded = rewriter.insert_before(i, UnaryOp{Unary::kRound}, {by(Binary::kDiv, x, rounding->step)}, x.size);
  Input code = rewriter.insert_before(i, ClipOp{rounding->low, rounding->high}, {rounded}, x.size);
  if (to->zero_point != back->zero_point) code = by(Binary::kAdd, code, to->zero_point - back->zero_point);
  rewriter.become(i, BinaryOp{Binary::kMul, Spread::kAll, Spread::kOne}, {code, rewriter.scalar(rounding->unit)});
  return true;
}

}  // namespace

int fuse_fake_quantize(Plan& plan) { return rewrite_each(plan, "fake_quantize", match_fake_quantization); }

}  // namespace kvik::native
