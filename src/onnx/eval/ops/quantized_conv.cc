#include <algorithm>
#include <cmath>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/broadcast.h"
#include "onnx/eval/ops/matmul_plan.h"
#include "onnx/eval/ops/named_activation.h"
#include "onnx/eval/ops/numbers.h"

// Quantized and fused convolutions, all based on the Conv kernel.
namespace kvik::onnx {
namespace {

Tensor plain_conv(const KernelCall& call, std::vector<Tensor> inputs) {
  Node node = call.node;
  node.op = "Conv";
  node.domain = "";
  node.opset = 22;
  return reference_kernels().find("", "Conv")({node, inputs, call.run_subgraph, call.work})[0];
}

// Codes minus zero points in f64: sums of their products are exact.
Tensor centered(const Tensor& x, const Tensor& zero_point) {
  require(is_integer(x.dtype()), "found a tensor of {}; expected integers", dtype_name(x.dtype()));
  std::vector<double> values = doubles_of(x);
  if (zero_point.defined()) {
    const double zero = as_double(zero_point);
    for (double& value : values) value -= zero;
  }
  return tensor_of(DType::kF64, x.dims(), values);
}

// One number for all output channels, or one per channel; weights are [channels, …].
std::vector<double> per_channel(const Tensor& parameter, const Tensor& weights, std::string_view name) {
  require(weights.rank() > 2, "found weights of shape {}; expected at least three dimensions", to_string(weights.dims()));
  std::vector<double> values = doubles_of(parameter);
  if (values.size() == 1) values.resize(static_cast<size_t>(weights.dim(0)), values[0]);
  require(static_cast<int64_t>(values.size()) == weights.dim(0), "{} has shape {}; expected one number or one for each of {} channels",
          name, to_string(parameter.dims()), weights.dim(0));
  return values;
}

Tensor centered_weights(const Tensor& w, const Tensor& zero_point) {
  if (!zero_point.defined()) return centered(w, Tensor());
  const std::vector<double> zeros = per_channel(zero_point, w, "the zero point of the weights");
  std::vector<double> values = doubles_of(w);
  const size_t each = zeros.empty() ? 1 : values.size() / zeros.size();
  for (size_t i = 0; i < values.size(); ++i) values[i] -= zeros[i / each];
  return tensor_of(DType::kF64, w.dims(), values);
}

std::vector<Tensor> conv_integer(const KernelCall& call) {
  const Tensor y = plain_conv(call, {centered(call.input(0), call.optional(2)), centered_weights(call.input(1), call.optional(3))});
  Tensor result(DType::kI32, y.dims());
  std::ranges::transform(y.data<double>(), result.mutable_data<int32_t>().begin(),
                         [](double sum) { return static_cast<int32_t>(static_cast<int64_t>(sum)); });
  return {result};
}

// The channel of element i of [batch, channels, …].
size_t channel_of(const Dims& dims, size_t i) {
  const auto plane = static_cast<size_t>(product(dims, 2, static_cast<int>(dims.size())));
  return i / plane % static_cast<size_t>(dims[1]);
}

Tensor with_axes(const Tensor& x, const std::vector<int>& order) {
  Dims dims;
  for (const int axis : order) dims.push_back(x.dim(axis));
  return tensor_of(x.dtype(), dims, permuted(doubles_of(x), x.dims(), order));
}

// com.microsoft: channels may be the last axis.
Tensor channels_first(const Tensor& x) {
  std::vector<int> order = {0, x.rank() - 1};
  for (int axis = 1; axis + 1 < x.rank(); ++axis) order.push_back(axis);
  return with_axes(x, order);
}

Tensor channels_last(const Tensor& x) {
  std::vector<int> order = {0};
  for (int axis = 2; axis < x.rank(); ++axis) order.push_back(axis);
  order.push_back(1);
  return with_axes(x, order);
}

std::vector<Tensor> qlinear_conv(const KernelCall& call) {
  const Tensor &w = call.input(3), &y_zero = call.input(7);
  const bool last = call.node.int_or("channels_last", 0) != 0;
  require(call.input(0).rank() > 2, "found an input of shape {}; expected at least three dimensions", to_string(call.input(0).dims()));
  Tensor x = centered(call.input(0), call.optional(2));
  if (last) x = channels_first(x);
  std::vector<Tensor> inputs = {x, centered_weights(w, call.optional(5))};
  if (call.has(8)) inputs.push_back(tensor_of(DType::kF64, call.input(8).dims(), doubles_of(call.input(8))));
  const Tensor sums = plain_conv(call, std::move(inputs));
  const std::vector<double> scales = per_channel(call.input(4), w, "the scale of the weights");
  const double x_scale = as_double(call.input(1)), y_scale = as_double(call.input(6)), zero = as_double(y_zero);
  std::vector<double> y = doubles_of(sums);
  for (size_t i = 0; i < y.size(); ++i) y[i] = std::nearbyint(y[i] * (x_scale * scales[channel_of(sums.dims(), i)] / y_scale)) + zero;
  const Tensor result = tensor_of(y_zero.dtype(), sums.dims(), y);
  return {last ? channels_last(result) : result};
}

std::vector<Tensor> fused_conv(const KernelCall& call) {
  std::vector<Tensor> inputs = {call.input(0), call.input(1)};
  if (call.has(2)) inputs.push_back(call.input(2));
  const Tensor convolved = plain_conv(call, std::move(inputs));
  std::vector<double> y = doubles_of(convolved);
  if (call.has(3)) {
    const std::vector<double> add = doubles_of(broadcast_to(call.input(3), convolved.dims()));
    for (size_t i = 0; i < y.size(); ++i) y[i] += add[i];
  }
  const std::vector<float> given = call.node.floats_or("activation_params", {});
  ActivationParameters with;
  if (!given.empty()) with.alpha = given[0];
  if (given.size() > 1) with.beta = given[1];
  std::ranges::transform(y, y.begin(), named_activation(call.node.string_or("activation", ""), with));
  return {tensor_of(convolved.dtype(), convolved.dims(), y)};
}

}  // namespace

void add_quantized_conv(KernelTable& table) {
  table.add("ConvInteger", conv_integer);
  table.add("QLinearConv", qlinear_conv);
  table.add(kMicrosoft, "QLinearConv", qlinear_conv);
  table.add(kMicrosoft, "FusedConv", fused_conv);
}

}  // namespace kvik::onnx
