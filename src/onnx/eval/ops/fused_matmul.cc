#include <numeric>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/broadcast.h"
#include "onnx/eval/ops/matmul_plan.h"
#include "onnx/eval/ops/named_activation.h"
#include "onnx/eval/ops/numbers.h"

// Fused matmuls of com.microsoft: with transposition, scale, bias and activation.
namespace kvik::onnx {
namespace {

struct Matrices {
  std::vector<double> values;
  Dims dims;

  void permute(const std::vector<int>& order) {
    values = permuted(values, dims, order);
    Dims moved;
    for (const int axis : order) moved.push_back(dims[static_cast<size_t>(axis)]);
    dims = moved;
  }
};

// trans: swaps the last two axes. trans_batch: moves the first axis after the other batch axes.
Matrices operand(const Tensor& tensor, bool trans, bool trans_batch) {
  require_float(tensor, "a matrix");
  Matrices result{doubles_of(tensor), tensor.dims()};
  std::vector<int> order(tensor.dims().size());
  std::iota(order.begin(), order.end(), 0);
  if (trans_batch && order.size() > 2) {
    std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
    result.permute(order);
    std::iota(order.begin(), order.end(), 0);
  }
  if (trans && order.size() > 1) {
    std::swap(order[order.size() - 2], order[order.size() - 1]);
    result.permute(order);
  }
  return result;
}

ActivationParameters parameters(const Node& node) {
  ActivationParameters result;
  if (node.has("activation_alpha")) result.alpha = node.float_or("activation_alpha", 0);
  if (node.has("activation_beta")) result.beta = node.float_or("activation_beta", 0);
  return result;
}

std::vector<Tensor> fused_matmul(const KernelCall& call) {
  const Node& node = call.node;
  const Tensor &a = call.input(0), &b = call.input(1);
  require_same_dtype(a, b);
  const Matrices left = operand(a, node.int_or("transA", 0) != 0, node.int_or("transBatchA", 0) != 0);
  const Matrices right = operand(b, node.int_or("transB", 0) != 0, node.int_or("transBatchB", 0) != 0);
  const MatMulPlan plan = plan_matmul(left.dims, right.dims, call.work);
  std::vector<double> y = multiply(plan, left.values, right.values);
  const double alpha = node.float_or("alpha", 1.0f);
  const std::function<double(double)> activation = named_activation(node.string_or("activation", ""), parameters(node));
  for (double& value : y) value = activation(value * alpha);
  return {tensor_of(a.dtype(), plan.output, y)};
}

std::vector<Tensor> fused_gemm(const KernelCall& call) {
  const Node& node = call.node;
  const Tensor &a = call.input(0), &b = call.input(1);
  require_rank(a, 2, "A");
  require_rank(b, 2, "B");
  const Matrices left = operand(a, node.int_or("transA", 0) != 0, false);
  const Matrices right = operand(b, node.int_or("transB", 0) != 0, false);
  const MatMulPlan plan = plan_matmul(left.dims, right.dims, call.work);
  std::vector<double> y = multiply(plan, left.values, right.values);
  const double alpha = node.float_or("alpha", 1.0f), beta = node.float_or("beta", 1.0f);
  const std::vector<double> c = call.has(2) ? doubles_of(broadcast_to(call.input(2), plan.output)) : std::vector<double>(y.size());
  const std::function<double(double)> activation = named_activation(node.string_or("activation", ""), parameters(node));
  for (size_t i = 0; i < y.size(); ++i) y[i] = activation(y[i] * alpha + c[i] * beta);
  return {tensor_of(a.dtype(), plan.output, y)};
}

std::vector<Tensor> gemm_fast_gelu(const KernelCall& call) {
  const Tensor &x = call.input(0), &w = call.input(1);
  require_float(x, "X");
  const MatMulPlan plan = plan_matmul(x.dims(), w.dims(), call.work);
  std::vector<double> y = multiply(plan, doubles_of(x), doubles_of(w));
  std::vector<double> bias(1, 0.0);
  if (call.has(2)) {
    require_dims(call.input(2), {plan.n}, "the bias");
    bias = doubles_of(call.input(2));
  }
  for (size_t i = 0; i < y.size(); ++i) y[i] = tanh_gelu(y[i] + bias[i % bias.size()]);
  return {tensor_of(x.dtype(), plan.output, y)};
}

}  // namespace

void add_fused_matmul(KernelTable& table) {
  table.add(kMicrosoft, "FusedMatMul", fused_matmul);
  table.add(kMicrosoft, "TransposeMatMul", fused_matmul);
  table.add(kMicrosoft, "FusedMatMulActivation", fused_matmul);
  table.add(kMicrosoft, "FusedGemm", fused_gemm);
  table.add(kMicrosoft, "GemmFastGelu", gemm_fast_gelu);
}

}  // namespace kvik::onnx
