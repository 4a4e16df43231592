#include <algorithm>
#include <cmath>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/numbers.h"
#include "onnx/eval/ops/quantization.h"

namespace kvik::onnx {
namespace {

// Maps elements of the quantized tensor to those of a scale or zero point.
class Grid {
 public:
  // `name`: of the scale or zero point, for messages.
  Grid(const Dims& x, const Tensor& parameter, const Node& node, std::string_view name) {
    if (parameter.size() == 1 && parameter.rank() <= 1) return;
    const int axis = normal_axis(node.int_or("axis", 1), static_cast<int>(x.size()));
    const int64_t block = node.int_or("block_size", 0);
    require(block >= 0, "attribute 'block_size' is {}; expected a size", block);
    Dims wanted = x;
    if (block == 0) {
      wanted = {x[static_cast<size_t>(axis)]};
    } else {
      wanted[static_cast<size_t>(axis)] = blocks_of(x[static_cast<size_t>(axis)], block);
    }
    require(parameter.dims() == wanted, "{} has shape {}; expected {} for a tensor of shape {} along axis {}", name,
            to_string(parameter.dims()), to_string(wanted), to_string(x), axis);
    per_tensor_ = false;
    split_ = split_at(x, axis);
    block_ = block;
    n_blocks_ = block == 0 ? 0 : wanted[static_cast<size_t>(axis)];
  }

  size_t operator()(int64_t i) const {
    if (per_tensor_) return 0;
    const int64_t along = i / split_.inner % split_.n;
    if (block_ == 0) return static_cast<size_t>(along);
    const int64_t outer = i / (split_.inner * split_.n);
    return static_cast<size_t>((outer * n_blocks_ + along / block_) * split_.inner + i % split_.inner);
  }

 private:
  bool per_tensor_ = true;
  AxisSplit split_ = {1, 1, 1};
  int64_t block_ = 0;
  int64_t n_blocks_ = 0;
};

DType quantized_type(const KernelCall& call) {
  const DType wanted = dtype_attribute(call.node, "output_dtype");
  if (!call.has(2)) return wanted == DType::kUndefined ? DType::kU8 : wanted;
  const DType found = call.input(2).dtype();
  require(wanted == DType::kUndefined || wanted == found, "output_dtype is {} and the zero point is of {}; expected the same type",
          dtype_name(wanted), dtype_name(found));
  return found;
}

std::vector<Tensor> quantize_linear(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const Tensor& scale = call.input(1);
  const DType dtype = quantized_type(call);
  const DType precision = dtype_attribute(call.node, "precision");
  const Grid scale_of(x.dims(), scale, call.node, "the scale");
  const std::vector<double> values = doubles_of(x);
  const std::vector<double> scales = doubles_of(scale);
  std::vector<double> zeros = {0.0};
  Grid zero_of(x.dims(), Tensor::scalar(0.0f), call.node, "the zero point");
  if (call.has(2)) {
    zeros = doubles_of(call.input(2));
    zero_of = Grid(x.dims(), call.input(2), call.node, "the zero point");
  }
  // The division is in the type of the scale unless the node has a precision; this decides ties.
  const DType divided_in = precision == DType::kUndefined ? scale.dtype() : precision;
  const bool to_integer = is_integer(dtype);
  std::vector<double> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const double quotient = rounded_to(divided_in, values[i] / scales[scale_of(at)]);
    result[i] = (to_integer ? std::nearbyint(quotient) : quotient) + zeros[zero_of(at)];
  }
  return {tensor_of(dtype, x.dims(), result, call.node.int_or("saturate", 1) != 0)};
}

std::vector<Tensor> dequantize_linear(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const Tensor& scale = call.input(1);
  const DType wanted = dtype_attribute(call.node, "output_dtype");
  const Grid scale_of(x.dims(), scale, call.node, "the scale");
  std::vector<double> values = doubles_of(x);
  if (call.has(2)) {
    require_same_dtype(x, call.input(2));
    const Grid zero_of(x.dims(), call.input(2), call.node, "the zero point");
    const std::vector<double> zeros = doubles_of(call.input(2));
    for (size_t i = 0; i < values.size(); ++i) values[i] -= zeros[zero_of(static_cast<int64_t>(i))];
  }
  const std::vector<double> scales = doubles_of(scale);
  for (size_t i = 0; i < values.size(); ++i) values[i] *= scales[scale_of(static_cast<int64_t>(i))];
  return {tensor_of(wanted == DType::kUndefined ? scale.dtype() : wanted, x.dims(), values)};
}

std::vector<Tensor> dynamic_quantize_linear(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const DynamicQuantized q = quantize_dynamically(x);
  std::vector<double> codes(q.centered);
  for (double& code : codes) code += q.zero_point;
  return {tensor_of(DType::kU8, x.dims(), codes), Tensor::scalar(q.scale), Tensor::scalar(static_cast<uint8_t>(q.zero_point))};
}

}  // namespace

DynamicQuantized quantize_dynamically(const Tensor& x) {
  const std::span<const float> data = x.data<float>();
  float low = 0, high = 0;
  for (const float value : data) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  DynamicQuantized result;
  result.scale = low == high ? 1.0f : (high - low) / 255.0f;
  result.zero_point = std::nearbyint(std::clamp(0.0f - low / result.scale, 0.0f, 255.0f));
  result.centered.reserve(data.size());
  for (const float value : data) {
    const float code = std::clamp(std::nearbyint(value / result.scale) + static_cast<float>(result.zero_point), 0.0f, 255.0f);
    result.centered.push_back(static_cast<double>(code) - result.zero_point);
  }
  return result;
}

void add_quantize(KernelTable& table) {
  table.add("QuantizeLinear", quantize_linear);
  table.add("DequantizeLinear", dequantize_linear);
  table.add("DynamicQuantizeLinear", dynamic_quantize_linear);
  table.add(kMicrosoft, "QuantizeLinear", quantize_linear);
  table.add(kMicrosoft, "DequantizeLinear", dequantize_linear);
}

}  // namespace kvik::onnx
