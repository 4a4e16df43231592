#include <algorithm>
#include <cmath>
#include <functional>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/attend.h"
#include "onnx/eval/ops/broadcast.h"
#include "onnx/eval/ops/elements.h"
#include "onnx/eval/ops/named_activation.h"
#include "onnx/eval/ops/numbers.h"

// The QLinear operators of com.microsoft: dequantize, compute, quantize.
namespace kvik::onnx {
namespace {

// Dequantized values. A missing zero point is zero.
std::vector<double> decoded(const Tensor& codes, const Tensor& scale, const Tensor& zero_point) {
  const double factor = as_double(scale), zero = zero_point.defined() ? as_double(zero_point) : 0.0;
  std::vector<double> values = doubles_of(codes);
  for (double& value : values) value = (value - zero) * factor;
  return values;
}

Tensor encoded(const Tensor& like, const Dims& dims, std::vector<double> values, const Tensor& scale, const Tensor& zero_point) {
  const double divisor = as_double(scale), zero = zero_point.defined() ? as_double(zero_point) : 0.0;
  for (double& value : values) value = std::nearbyint(value / divisor) + zero;
  return tensor_of(like.dtype(), dims, values);
}

std::vector<Tensor> binary(const KernelCall& call, const std::function<double(double, double)>& f) {
  const Tensor &a = call.input(0), &b = call.input(3);
  require_same_dtype(a, b);
  const Dims dims = broadcast(a.dims(), b.dims());
  std::vector<double> x = decoded(broadcast_to(a, dims), call.input(1), call.optional(2));
  const std::vector<double> y = decoded(broadcast_to(b, dims), call.input(4), call.optional(5));
  for (size_t i = 0; i < x.size(); ++i) x[i] = f(x[i], y[i]);
  return {encoded(a, dims, std::move(x), call.input(6), call.optional(7))};
}

std::vector<Tensor> qlinear_add(const KernelCall& call) { return binary(call, std::plus<>()); }
std::vector<Tensor> qlinear_mul(const KernelCall& call) { return binary(call, std::multiplies<>()); }

std::vector<Tensor> unary(const KernelCall& call, const std::function<double(double)>& f) {
  const Tensor& x = call.input(0);
  std::vector<double> values = decoded(x, call.input(1), call.optional(2));
  std::ranges::transform(values, values.begin(), f);
  return {encoded(x, x.dims(), std::move(values), call.input(3), call.optional(4))};
}

std::vector<Tensor> qlinear_sigmoid(const KernelCall& call) { return unary(call, sigmoid); }

std::vector<Tensor> qlinear_leaky_relu(const KernelCall& call) {
  const double alpha = call.node.float_or("alpha", 0.01f);
  return unary(call, [alpha](double x) { return x < 0 ? alpha * x : x; });
}

std::vector<Tensor> qlinear_softmax(const KernelCall& call) {
  const Tensor& x = call.input(0);
  require(x.rank() > 0, "the input is a scalar; expected at least one dimension");
  // Before opset 13, softmax is over all axes from the given one.
  const bool one_axis = call.node.int_or("opset", 13) >= 13;
  const int axis = normal_axis(call.node.int_or("axis", one_axis ? -1 : 1), x.rank());
  AxisSplit around = split_at(x.dims(), axis);
  if (!one_axis) around = {around.outer, around.n * around.inner, 1};
  std::vector<double> values = decoded(x, call.input(1), call.optional(2)), line(static_cast<size_t>(values.empty() ? 0 : around.n));
  for (int64_t at = 0; !values.empty() && at < around.outer * around.inner; ++at) {
    const auto place = [&](size_t i) {
      return static_cast<size_t>((at / around.inner * around.n + static_cast<int64_t>(i)) * around.inner + at % around.inner);
    };
    for (size_t i = 0; i < line.size(); ++i) line[i] = values[place(i)];
    softmax(line);
    for (size_t i = 0; i < line.size(); ++i) values[place(i)] = line[i];
  }
  return {encoded(x, x.dims(), std::move(values), call.input(3), call.optional(4))};
}

std::vector<Tensor> qlinear_concat(const KernelCall& call) {
  require(call.inputs.size() >= 5 && call.inputs.size() % 3 == 2,
          "found {} inputs; expected a scale, a zero point and three for each tensor", call.inputs.size());
  const Tensor& first = call.input(2);
  const int axis = normal_axis(call.node.int_or("axis", 0), first.rank());
  std::vector<Tensor> parts;
  Dims dims = first.dims();
  dims[static_cast<size_t>(axis)] = 0;
  for (size_t i = 2; i < call.inputs.size(); i += 3) {
    const Tensor& part = call.input(i);
    Dims other = part.dims();
    require(part.rank() == first.rank(), "tensors of shapes {} and {} cannot be joined", to_string(first.dims()), to_string(part.dims()));
    dims[static_cast<size_t>(axis)] += part.dim(axis);
    other[static_cast<size_t>(axis)] = dims[static_cast<size_t>(axis)];
    require(other == dims, "tensors of shapes {} and {} cannot be joined along axis {}", to_string(first.dims()), to_string(part.dims()),
            axis);
    parts.push_back(
        encoded(call.input(1), part.dims(), decoded(part, call.input(i + 1), call.optional(i + 2)), call.input(0), call.input(1)));
  }
  Tensor result = new_tensor(call.input(1).dtype(), dims);
  ElementWriter writer(result);
  const AxisSplit whole = split_at(dims, axis);
  int64_t to = 0;
  for (const Tensor& part : parts) {
    const int64_t run = part.dim(axis) * whole.inner;
    for (int64_t outer = 0; part.size() > 0 && outer < whole.outer; ++outer)
      writer.copy(part, outer * run, outer * whole.n * whole.inner + to, run);
    to += run;
  }
  return {result};
}

std::vector<Tensor> qlinear_where(const KernelCall& call) {
  const Tensor &condition = call.input(0), &x = call.input(1), &y = call.input(4);
  require_same_dtype(x, y);
  const Dims dims = broadcast(broadcast(condition.dims(), x.dims()), y.dims());
  const std::vector<double> chosen = doubles_of(broadcast_to(condition, dims));
  std::vector<double> a = decoded(broadcast_to(x, dims), call.input(2), call.optional(3));
  const std::vector<double> b = decoded(broadcast_to(y, dims), call.input(5), call.optional(6));
  for (size_t i = 0; i < a.size(); ++i) a[i] = chosen[i] != 0 ? a[i] : b[i];
  return {encoded(x, dims, std::move(a), call.input(7), call.optional(8))};
}

std::vector<Tensor> qlinear_global_average_pool(const KernelCall& call) {
  Tensor x = call.input(0);
  require(x.rank() > 2, "found an input of shape {}; expected at least three dimensions", to_string(x.dims()));
  require(call.node.int_or("channels_last", 0) == 0, "attribute 'channels_last' is set, which is not supported");
  const std::vector<double> values = decoded(x, call.input(1), call.optional(2));
  Dims dims(x.dims().size(), 1);
  dims[0] = x.dim(0);
  dims[1] = x.dim(1);
  std::vector<double> means(static_cast<size_t>(values.empty() ? 0 : x.dim(0) * x.dim(1)));
  const size_t plane = means.empty() ? 1 : values.size() / means.size();
  for (size_t i = 0; i < values.size(); ++i) means[i / plane] += values[i] / static_cast<double>(plane);
  means.resize(static_cast<size_t>(element_count(dims)));
  return {encoded(x, dims, std::move(means), call.input(3), call.optional(4))};
}

}  // namespace

void add_quantized_elementwise(KernelTable& table) {
  table.add(kMicrosoft, "QLinearAdd", qlinear_add);
  table.add(kMicrosoft, "QLinearMul", qlinear_mul);
  table.add(kMicrosoft, "QLinearSigmoid", qlinear_sigmoid);
  table.add(kMicrosoft, "QLinearLeakyRelu", qlinear_leaky_relu);
  table.add(kMicrosoft, "QLinearSoftmax", qlinear_softmax);
  table.add(kMicrosoft, "QLinearConcat", qlinear_concat);
  table.add(kMicrosoft, "QLinearWhere", qlinear_where);
  table.add(kMicrosoft, "QLinearGlobalAveragePool", qlinear_global_average_pool);
}

}  // namespace kvik::onnx
