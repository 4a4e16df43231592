#include <algorithm>
#include <cmath>
#include <functional>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/named_activation.h"
#include "onnx/eval/ops/numbers.h"

// Fused activations of com.microsoft (with biases and gates) and the gated ones of ONNX.
namespace kvik::onnx {
namespace {

std::vector<Tensor> mapped(const Tensor& x, const std::function<double(double)>& f) {
  require_float(x, "the input");
  std::vector<double> values = doubles_of(x);
  for (double& value : values) value = f(value);
  return {tensor_of(x.dtype(), x.dims(), values)};
}

// x plus a bias along its last axis, if given.
std::vector<double> biased(const Tensor& x, const Tensor& bias) {
  require_float(x, "the input");
  std::vector<double> values = doubles_of(x);
  if (!bias.defined()) return values;
  require(x.rank() > 0, "the input is a scalar; expected at least one dimension");
  require_dims(bias, {x.dim(-1)}, "the bias");
  const std::vector<double> add = doubles_of(bias);
  for (size_t i = 0; i < values.size(); ++i) values[i] += add[i % add.size()];
  return values;
}

std::vector<Tensor> fused_gelu_kernel(const KernelCall& call) { return mapped(call.input(0), gelu); }

std::vector<Tensor> bias_gelu(const KernelCall& call) {
  std::vector<double> values = biased(call.input(0), call.input(1));
  std::ranges::transform(values, values.begin(), gelu);
  return {tensor_of(call.input(0).dtype(), call.input(0).dims(), values)};
}

std::vector<Tensor> fast_gelu(const KernelCall& call) {
  std::vector<double> values = biased(call.input(0), call.optional(1));
  std::ranges::transform(values, values.begin(), tanh_gelu);
  return {tensor_of(call.input(0).dtype(), call.input(0).dims(), values)};
}

std::vector<Tensor> quick_gelu(const KernelCall& call) {
  const double alpha = call.node.float_or("alpha", 1.702f);
  return mapped(call.input(0), [&](double x) { return x * sigmoid(alpha * x); });
}

std::vector<Tensor> swish(const KernelCall& call) {
  const double alpha = call.node.float_or("alpha", 1.0f);
  return mapped(call.input(0), [&](double x) { return x * sigmoid(alpha * x); });
}

std::vector<Tensor> swiglu(const KernelCall& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  require_float(a, "A");
  require_same_dtype(a, b);
  require(a.dims() == b.dims(), "A and B have shapes {} and {}; expected equal shapes", to_string(a.dims()), to_string(b.dims()));
  const double alpha = call.node.float_or("alpha", 1.0f);
  std::vector<double> y = doubles_of(a);
  const std::vector<double> gate = doubles_of(b);
  for (size_t i = 0; i < y.size(); ++i) y[i] *= sigmoid(alpha * y[i]) * gate[i];
  return {tensor_of(a.dtype(), a.dims(), y)};
}

std::vector<Tensor> bias_add(const KernelCall& call) {
  const Tensor &x = call.input(0), &skip = call.input(2);
  require(skip.dims() == x.dims(), "X and skip have shapes {} and {}; expected equal shapes", to_string(x.dims()), to_string(skip.dims()));
  std::vector<double> y = biased(x, call.input(1));
  const std::vector<double> add = doubles_of(skip);
  for (size_t i = 0; i < y.size(); ++i) y[i] += add[i];
  return {tensor_of(x.dtype(), x.dims(), y)};
}

std::vector<Tensor> bias_split_gelu(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const std::vector<double> both = biased(x, call.input(1));
  require(x.dim(-1) % 2 == 0, "X has shape {}; expected an even last dimension", to_string(x.dims()));
  Dims dims = x.dims();
  dims.back() /= 2;
  const auto half = static_cast<size_t>(dims.back());
  std::vector<double> y(both.size() / 2);
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t left = i / half * 2 * half + i % half;
    y[i] = both[left] * gelu(both[left + half]);
  }
  return {tensor_of(x.dtype(), dims, y)};
}

std::vector<Tensor> gated_add(const KernelCall& call) {
  const Tensor &x = call.input(0), &y = call.input(1), &gate = call.input(2);
  require_float(x, "X");
  require(x.dims() == y.dims() && x.rank() > 0, "X and Y have shapes {} and {}; expected equal shapes", to_string(x.dims()),
          to_string(y.dims()));
  Dims per_row = x.dims();
  per_row.back() = 1;
  require(gate.dims() == per_row, "the gate has shape {}; expected {}", to_string(gate.dims()), to_string(per_row));
  std::vector<double> sum = doubles_of(x);
  const std::vector<double> add = doubles_of(y), gates = doubles_of(gate);
  const auto n = static_cast<size_t>(x.dim(-1));
  // The product is rounded separately: the result must equal Mul and Add.
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += rounded_to(x.dtype(), add[i] * gates[i / n]);
  return {tensor_of(x.dtype(), x.dims(), sum)};
}

double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

std::vector<Tensor> linear_attention_gate(const KernelCall& call) {
  const Tensor& a = call.input(0);
  require_float(a, "a");
  require_rank(a, 3, "a");
  const int64_t heads = a.dim(2);
  require_dims(call.input(1), {heads}, "dt_bias");
  require_dims(call.input(2), {heads}, "decay_scale");
  const std::vector<double> bias = doubles_of(call.input(1)), scale = doubles_of(call.input(2));
  std::vector<double> decay = doubles_of(a);
  for (size_t i = 0; i < decay.size(); ++i) decay[i] = scale[i % scale.size()] * softplus(decay[i] + bias[i % bias.size()]);
  std::vector<Tensor> outputs = {tensor_of(a.dtype(), a.dims(), decay)};
  if (call.wants(1)) outputs.push_back(mapped(call.input(3), sigmoid)[0]);
  return outputs;
}

}  // namespace

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double gelu(double x) { return 0.5 * x * (1.0 + std::erf(x * 0.70710678118654752440)); }

double tanh_gelu(double x) { return 0.5 * x * (1.0 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); }

std::function<double(double)> named_activation(std::string_view name, const ActivationParameters& with) {
  if (name.empty()) return [](double x) { return x; };
  if (name == "Relu") return [](double x) { return std::max(x, 0.0); };
  if (name == "Sigmoid") return sigmoid;
  if (name == "Tanh") return [](double x) { return std::tanh(x); };
  if (name == "Gelu") return gelu;
  if (name == "LeakyRelu") return [with](double x) { return x < 0 ? with.alpha.value_or(0.01f) * x : x; };
  if (name == "Elu") return [with](double x) { return x < 0 ? with.alpha.value_or(1.0f) * std::expm1(x) : x; };
  if (name == "Softplus") return softplus;
  if (name == "Softsign") return [](double x) { return x / (1.0 + std::fabs(x)); };
  if (name == "ThresholdedRelu") return [with](double x) { return x > with.alpha.value_or(1.0f) ? x : 0.0; };
  if (name == "HardSigmoid")
    return [with](double x) { return std::clamp(with.alpha.value_or(0.2f) * x + with.beta.value_or(0.5f), 0.0, 1.0); };
  if (name == "Clip") {
    require(with.alpha && with.beta && *with.alpha <= *with.beta, "the activation 'Clip' needs two bounds in order");
    return [with](double x) { return std::clamp(x, static_cast<double>(*with.alpha), static_cast<double>(*with.beta)); };
  }
  throw Error(Code::kUnsupported, fmt::format("unknown fused activation '{}'", name));
}

void add_fused_activation(KernelTable& table) {
  table.add("Swish", swish);
  table.add("SwiGLU", swiglu);
  table.add(kMicrosoft, "Gelu", fused_gelu_kernel);
  table.add(kMicrosoft, "BiasGelu", bias_gelu);
  table.add(kMicrosoft, "FastGelu", fast_gelu);
  table.add(kMicrosoft, "QuickGelu", quick_gelu);
  table.add(kMicrosoft, "BiasAdd", bias_add);
  table.add(kMicrosoft, "BiasSplitGelu", bias_split_gelu);
  table.add(kMicrosoft, "GatedAdd", gated_add);
  table.add(kMicrosoft, "LinearAttentionGate", linear_attention_gate);
}

}  // namespace kvik::onnx
