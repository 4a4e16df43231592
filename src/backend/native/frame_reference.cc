#include <cstring>
#include <fmt/format.h>

#include "backend/graph/convert.h"
#include "backend/native/frame.h"
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
    throw Error(Code::kInternal, fmt::format("{}: gave {} values for a row, {} were expected",
                                             plan_.flat->graph.nodes[static_cast<size_t>(op.node)].describe(), kept.size(), value.size));
  }
  std::byte* y = out_bytes(index, row);
  if (kept.size() > 0) std::memcpy(y, kept.bytes().data(), kept.size_bytes());
  const int32_t count = kept.size() > 0 ? 1 : 0;
  if (counts) std::memcpy(y + count_offset(value), &count, sizeof count);
}

void Frame::run(const Op& op, const ReferenceOp& args) {
  const onnx::Node& node = plan_.flat->graph.nodes[static_cast<size_t>(op.node)];
  pool_.for_each(n_rows(), [&](int64_t row) {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < args.in_dims.size(); ++i) inputs.push_back(reference_input(op, args, i, row));
    const std::vector<Tensor> outputs = onnx::run_kernel(node, inputs);
    for (size_t i = 0; i < op.out.size(); ++i) {
      if (op.out[i] != kNoIndex) keep_reference_output(op, i, row, outputs[i]);
    }
  });
}

}  // namespace kvik::native
