#include <cmath>
#include <numbers>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"
#include "onnx/eval/ops/elementwise.h"

namespace kvik::onnx {
namespace {

double sigmoid_of(double x) { return x >= 0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x)); }
double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

Tensors sigmoid_kernel(const KernelCall& call) { return {map_floats(call.input(0), sigmoid_of)}; }
Tensors softplus(const KernelCall& call) { return {map_floats(call.input(0), softplus_of)}; }

Tensors softsign(const KernelCall& call) {
  return {map_floats(call.input(0), [](double x) { return x / (1.0 + std::fabs(x)); })};
}

Tensors mish(const KernelCall& call) {
  return {map_floats(call.input(0), [](double x) { return x * std::tanh(softplus_of(x)); })};
}

Tensors relu(const KernelCall& call) {
  const Tensor& x = call.input(0);
  if (is_float(x.dtype())) return {map_floats(x, [](double v) { return v < 0 ? 0.0 : v; })};
  return {visit_integer(x.dtype(), [&]<class T>(Type<T>) {
    Tensor result(x.dtype(), x.dims());
    const auto to = result.mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = std::max(x.data<T>()[i], T{0});
    return result;
  })};
}

Tensors leaky_relu(const KernelCall& call) {
  const double alpha = call.node.float_or("alpha", 0.01f);
  return {map_floats(call.input(0), [=](double x) { return x < 0 ? alpha * x : x; })};
}

Tensors thresholded_relu(const KernelCall& call) {
  const double alpha = call.node.float_or("alpha", 1.0f);
  return {map_floats(call.input(0), [=](double x) { return x > alpha ? x : 0.0; })};
}

Tensors elu(const KernelCall& call) {
  const double alpha = call.node.float_or("alpha", 1.0f);
  return {map_floats(call.input(0), [=](double x) { return x < 0 ? alpha * std::expm1(x) : x; })};
}

Tensors celu(const KernelCall& call) {
  const double alpha = call.node.float_or("alpha", 1.0f);
  return {map_floats(call.input(0), [=](double x) { return x < 0 ? alpha * std::expm1(x / alpha) : x; })};
}

Tensors selu(const KernelCall& call) {
  const double alpha = call.node.float_or("alpha", 1.67326319217681884765625f);
  const double gamma = call.node.float_or("gamma", 1.05070102214813232421875f);
  return {map_floats(call.input(0), [=](double x) { return x <= 0 ? gamma * alpha * std::expm1(x) : gamma * x; })};
}

Tensors hard_sigmoid(const KernelCall& call) {
  const double alpha = call.node.float_or("alpha", 0.2f);
  const double beta = call.node.float_or("beta", 0.5f);
  return {map_floats(call.input(0), [=](double x) { return std::min(1.0, std::max(0.0, alpha * x + beta)); })};
}

Tensors hard_swish(const KernelCall& call) {
  return {map_floats(call.input(0), [](double x) { return x * std::min(1.0, std::max(0.0, x / 6.0 + 0.5)); })};
}

Tensors gelu_kernel(const KernelCall& call) {
  const std::string_view approximate = call.node.string_or("approximate", "none");
  if (approximate == "tanh") {
    return {map_floats(call.input(0), [](double x) {
      const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return 0.5 * x * (1.0 + std::tanh(inner));
    })};
  }
  require(approximate == "none", "approximate '{}' is unknown; expected 'none' or 'tanh'", approximate);
  return {map_floats(call.input(0), [](double x) { return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2)); })};
}

Tensors shrink(const KernelCall& call) {
  const double lambd = call.node.float_or("lambd", 0.5f);
  const double bias = call.node.float_or("bias", 0.0f);
  const Tensor& x = call.input(0);
  const auto f = [=](double v) { return v < -lambd ? v + bias : v > lambd ? v - bias : 0.0; };
  if (is_float(x.dtype())) return {map_floats(x, f)};
  return {cast(map_floats(cast(x, DType::kF64), f), x.dtype())};
}

template <class T>
T prelu_of(T x, T slope) {
  if (!(x < T{0})) return x;
  if constexpr (std::is_floating_point_v<T>) return x * slope;
  return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(slope));
}

Tensors prelu(const KernelCall& call) {
  const Tensor& x = call.input(0);
  Tensor slope = call.input(1);
  // Before opset 7, a slope with one axis was per channel, not for the last axis.
  if (call.node.opset < 7 && slope.rank() == 1 && slope.size() > 1) {
    Dims dims(static_cast<size_t>(std::max(x.rank() - 1, 1)), 1);
    dims[0] = slope.dim(0);
    slope = slope.reshaped(dims);
  }
  require_same_dtype(x, slope);
  require(broadcast(x.dims(), slope.dims()) == x.dims(), "a slope of shape {} does not broadcast to {}", to_string(slope.dims()),
          to_string(x.dims()));
  return {visit_numeric(x.dtype(), [&]<class T>(Type<T>) { return zip<T, T>(x, slope, prelu_of<T>); })};
}

}  // namespace

void add_activation(KernelTable& table) {
  table.add("Celu", celu);
  table.add("Elu", elu);
  table.add("Gelu", gelu_kernel);
  table.add("HardSigmoid", hard_sigmoid);
  table.add("HardSwish", hard_swish);
  table.add("LeakyRelu", leaky_relu);
  table.add("Mish", mish);
  table.add("PRelu", in_f32<prelu>);
  table.add("Relu", relu);
  table.add("Selu", selu);
  table.add("Shrink", shrink);
  table.add("Sigmoid", sigmoid_kernel);
  table.add("Softplus", softplus);
  table.add("Softsign", softsign);
  table.add("ThresholdedRelu", thresholded_relu);
}

}  // namespace kvik::onnx
