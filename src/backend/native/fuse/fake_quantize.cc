// QuantizeLinear and DequantizeLinear of a row value, as exports with quantised activations have them: rounding to a grid, in floats.
#include <cmath>

#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

struct Grid {
  float scale = 1.0f;
  float zero_point = 0.0f;
  DType codes = DType::kU8;
};

std::optional<float> integer(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kU8: return static_cast<float>(tensor.data<uint8_t>()[0]);
    case DType::kI8: return static_cast<float>(tensor.data<int8_t>()[0]);
    case DType::kU16: return static_cast<float>(tensor.data<uint16_t>()[0]);
    case DType::kI16: return static_cast<float>(tensor.data<int16_t>()[0]);
    default: return {};
  }
}

struct Limits {
  float low, high;
};
Limits limits(DType codes) {
  switch (codes) {
    case DType::kI8: return {-128.0f, 127.0f};
    case DType::kU16: return {0.0f, 65535.0f};
    case DType::kI16: return {-32768.0f, 32767.0f};
    default: return {0.0f, 255.0f};
  }
}

// One scale and zero point for everything. Without a zero point codes are as `otherwise`.
std::optional<Grid> grid_of(const Plan& plan, const Op& op, DType otherwise) {
  if (op.in.size() < 2 || !op.in[1].is_constant()) return {};
  const std::span<const float> scale = plan.floats(op.in[1]);
  if (scale.size() != 1 || !std::isnormal(scale[0])) return {};
  Grid grid{scale[0], 0.0f, otherwise};
  if (op.in.size() < 3 || !op.in[2]) return grid;
  if (!op.in[2].is_constant()) return {};
  const Tensor& zero_point = plan.constants[static_cast<size_t>(op.in[2].index)];
  const std::optional<float> number = zero_point.size() == 1 ? integer(zero_point) : std::nullopt;
  if (!number) return {};
  grid.zero_point = *number;
  grid.codes = zero_point.dtype();
  return grid;
}

bool match_fake_quantization(Rewriter& rewriter, OpIndex i) {
  Plan& plan = rewriter.plan();
  const Op& op = rewriter.op(i);
  if (reference_node(plan, &op, "DequantizeLinear") == nullptr || plan.value(op.out.front()).dtype != DType::kF32) return false;
  const Op* quantise = plan.producer(op.in[0]);
  const onnx::Node* node = reference_node(plan, quantise, "QuantizeLinear");
  if (node == nullptr || node->has("output_dtype") || !quantise->in[0].is_value()) return false;
  const std::optional<Grid> to = grid_of(plan, *quantise, DType::kU8);
  const std::optional<Grid> back = to ? grid_of(plan, op, to->codes) : std::nullopt;
  const DType stored = plan.value(op.in[0].index).dtype;
  if (!back || to->codes != stored || back->codes != stored) return false;
  const Input x = quantise->in[0];
  const Limits range = limits(stored);
  const auto by = [&](Binary kind, const Input& a, float b) {
    return rewriter.insert_before(i, BinaryOp{kind, Spread::kAll, Spread::kOne}, {a, rewriter.scalar(b)}, a.size);
  };
  const Input rounded = rewriter.insert_before(i, UnaryOp{Unary::kRound}, {by(Binary::kDiv, x, to->scale)}, x.size);
  Input code = rewriter.insert_before(i, ClipOp{range.low - to->zero_point, range.high - to->zero_point}, {rounded}, x.size);
  if (to->zero_point != back->zero_point) code = by(Binary::kAdd, code, to->zero_point - back->zero_point);
  rewriter.become(i, BinaryOp{Binary::kMul, Spread::kAll, Spread::kOne}, {code, rewriter.scalar(back->scale)});
  return true;
}

}  // namespace

int fuse_fake_quantize(Plan& target) {
  Rewriter plan(target, "fake_quantize");
  for (OpIndex i = 0; i < plan.size(); ++i) {
    if (!plan.is_dead(i) && match_fake_quantization(plan, i)) plan.count();
  }
  return plan.finish();
}

}  // namespace kvik::native
