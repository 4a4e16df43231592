#include "backend/native/plan/weights.h"

#include "backend/native/plan/plan.h"

namespace kvik::native {

Quantization quantization_of(const onnx::Node& node) {
  Quantization q;
  if (node.op == "MatMulNBits" || node.op == "GatherBlockQuantized") {
    const bool table = node.op == "GatherBlockQuantized";
    q.kind = table ? Quantization::Kind::kBlockTable : Quantization::Kind::kBlocks;
    q.bits = static_cast<int>(node.int_or("bits", 4));
    q.block = node.int_or("block_size", table ? 128 : 0);
  } else if (node.op == "DequantizeLinear") {
    q.kind = Quantization::Kind::kLinear;
    q.block = node.int_or("block_size", 0);
    q.axis = static_cast<int>((node.int_or("axis", 1) + 2) % 2);
  } else {
    q.kind = Quantization::Kind::kInteger;
  }
  return q;
}

onnx::TensorData stored_in_memory(Tensor tensor) {
  auto kept = std::make_shared<const Tensor>(std::move(tensor));
  const std::span<const std::byte> bytes = kept->bytes();
  onnx::TensorData data;
  data.dtype = kept->dtype();
  data.dims = kept->dims();
  data.n_elements = kept->size();
  data.form = onnx::TensorData::Form::kRaw;
  data.stored = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  data.owner = kept;
  return data;
}

namespace {

// What a layout is chosen by is equal.
bool quantized_alike(const Plan& plan, const WeightPart& a, const WeightPart& b) {
  if (a.quantization != b.quantization || a.n_major != b.n_major || (a.zero_points < 0) != (b.zero_points < 0)) return false;
  const onnx::TensorData *scales_a = stored_data(plan, a.scales), *scales_b = stored_data(plan, b.scales);
  if (scales_a == nullptr || scales_b == nullptr) return false;
  return scales_a->dtype == scales_b->dtype && (scales_a->n_elements == 1) == (scales_b->n_elements == 1);
}

}  // namespace

const onnx::TensorData* stored_data(const Plan& plan, int tensor) {
  if (tensor < 0) return nullptr;
  const ModelTensor& of = plan.tensors[static_cast<size_t>(tensor)];
  return of.expression == nullptr ? &of.data : nullptr;
}

DType stored_dtype(const Plan& plan, const WeightPart& part) {
  if (const onnx::TensorData* data = stored_data(plan, part.value)) return data->dtype;
  return part.quantization ? DType::kU8 : DType::kF32;
}

bool can_pack_together(const Plan& plan, const PlanWeight& left, const PlanWeight& right) {
  const WeightPart &a = left.parts.front(), &b = right.parts.front();
  if (left.k != right.k || left.activations != right.activations || left.n % 32 != 0) return false;
  if (left.row_scale != right.row_scale || left.row_zero_point != right.row_zero_point) return false;
  if (stored_dtype(plan, a) != stored_dtype(plan, b)) return false;
  const auto quantized = static_cast<bool>(a.quantization);
  return quantized == static_cast<bool>(b.quantization) && (!quantized || quantized_alike(plan, a, b));
}

}  // namespace kvik::native
