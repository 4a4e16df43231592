#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "backend/graph/convert.h"
#include "backend/native/execute/cpu/frame.h"
#include "kvik/error.h"
#include "onnx/eval/kernel.h"

// Nodes that no kernel of ours knows, by their reference kernels: slow and right.
namespace kvik::native {
namespace {

Tensor to_booleans(const Tensor& floats) {
  Tensor booleans(DType::kBool, floats.dims());
  std::transform(floats.data<float>().begin(), floats.data<float>().end(), booleans.mutable_data<bool>().begin(),
                 [](float x) { return x != 0.0f; });
  return booleans;
}

Tensor to_plan_dtype(const Tensor& tensor, DType wanted) {
  if (tensor.dtype() == wanted) return tensor;
  if (tensor.dtype() == DType::kBool && wanted == DType::kF32) {
    Tensor floats(DType::kF32, tensor.dims());
    std::transform(tensor.data<bool>().begin(), tensor.data<bool>().end(), floats.mutable_data<float>().begin(),
                   [](bool b) { return b ? 1.0f : 0.0f; });
    return floats;
  }
  return is_float(wanted) ? backend::cast_float(tensor, wanted) : backend::cast_integer(tensor, wanted);
}

Dims with_count(Dims dims, int64_t count) {
  for (int64_t& dim : dims) dim = dim < 0 ? count : dim;
  return dims;
}

}  // namespace

Tensor Frame::reference_input(const Op& op, const ReferenceOp& args, size_t i, int64_t row) const {
  const Input& input = op.in[i];
  if (!input) return {};
  if (input.is_constant()) {
    const Tensor& constant = plan_.constants[static_cast<size_t>(input.index)];
    return args.in_bool[i] ? to_booleans(constant) : constant;
  }
  const ValueIndex selection = input.is_value() ? plan_.value(input.index).selection : kNoIndex;
  const DType dtype = input.is_value() ? plan_.value(input.index).dtype : plan_.tables[static_cast<size_t>(input.index)].dtype;
  Tensor tensor(dtype, with_count(args.in_dims[i], selection == kNoIndex ? 1 : count_of(selection, row)));
  const std::span<std::byte> bytes = tensor.mutable_bytes();
  if (!bytes.empty()) std::memcpy(bytes.data(), bytes_at(reader(input), row), bytes.size());
  return args.in_bool[i] ? to_booleans(tensor) : tensor;
}

void Frame::keep_reference_output(const Op& op, size_t i, int64_t row, const Tensor& tensor) const {
  const ValueIndex index = op.out[i];
  const PlanValue& value = plan_.value(index);
  const Tensor kept = to_plan_dtype(tensor, value.dtype);
  const bool counts = value.selection == index;
  if (kept.size() != value.size && !(counts && kept.size() == 0)) {
    throw Error(Code::kInternal,
                fmt::format("{}: gave {} values for a row, {} were expected", plan_.node(op).describe(), kept.size(), value.size));
  }
  std::byte* y = out_bytes(index, row);
  if (kept.size() > 0) std::memcpy(y, kept.bytes().data(), kept.size_bytes());
  const int32_t count = kept.size() > 0 ? 1 : 0;
  if (counts) std::memcpy(y + count_offset(value), &count, sizeof count);
}

bool Frame::has_none(const Input& input, int64_t row) const {
  const ValueIndex selection = input.is_value() ? plan_.value(input.index).selection : kNoIndex;
  return selection != kNoIndex && count_of(selection, row) == 0;
}

// The row has nothing of what the operation makes. False where that is not for it to say.
bool Frame::leave_empty(const Op& op, int64_t row) const {
  const ValueIndex made = op.out.front();
  if (op.out.size() != 1 || made == kNoIndex || plan_.value(made).selection != made) return false;
  const int32_t none = 0;
  std::memcpy(out_bytes(made, row) + count_offset(plan_.value(made)), &none, sizeof none);
  return true;
}

// Of many experts a row has chosen few: what the others would give is known without running their nodes.
bool Frame::skip_unchosen(const Op& op, const onnx::Node& node, int64_t row) const {
  if (!node.domain.empty() || op.in.empty()) return false;
  if (node.op == "NonZero" && op.in[0].is_value()) {
    const std::byte* x = bytes_at(reader(op.in[0]), row);
    const int64_t n_bytes = op.in[0].size * element_bytes(plan_.value(op.in[0].index).dtype);
    return std::all_of(x, x + n_bytes, [](std::byte b) { return b == std::byte{0}; }) && leave_empty(op, row);
  }
  if (op.in.size() < 2 || !has_none(op.in[1], row)) return false;
  if (node.op == "Gather" || node.op == "GatherND" || node.op == "GatherElements") return leave_empty(op, row);
  if (node.op != "ScatterElements" && node.op != "ScatterND") return false;
  const PlanValue& made = plan_.value(op.out.front());
  if (op.in[0].is_value() && plan_.value(op.in[0].index).selection != kNoIndex) return false;
  if (op.in[0].is_constant() || made.selection != kNoIndex || op.in[0].size != made.size) return false;
  std::memcpy(out_bytes(op.out.front(), row), bytes_at(reader(op.in[0]), row), static_cast<size_t>(made.size * element_bytes(made.dtype)));
  return true;
}

void Frame::run(const Op& op, const ReferenceOp& args) {
  const onnx::Node& node = plan_.node(op);
  pool_.for_each(n_rows(), [&](int64_t row) {
    if (skip_unchosen(op, node, row)) return;
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < args.in_dims.size(); ++i) inputs.push_back(reference_input(op, args, i, row));
    const std::vector<Tensor> outputs = onnx::run_kernel(node, inputs);
    for (size_t i = 0; i < op.out.size(); ++i) {
      if (op.out[i] == kNoIndex) continue;
      if (i >= outputs.size()) throw Error(Code::kBadModel, fmt::format("{}: gave no output {}", node.describe(), i));
      keep_reference_output(op, i, row, outputs[i]);
    }
  });
}

}  // namespace kvik::native
