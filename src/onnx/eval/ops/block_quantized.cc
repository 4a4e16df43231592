#include <array>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/blocked_matrix.h"
#include "onnx/eval/ops/named_activation.h"
#include "onnx/eval/ops/norm_row.h"
#include "onnx/eval/ops/numbers.h"

// Matmuls with weights of a few bits. The accuracy level of a node permits rounding, which the reference does not use.
namespace kvik::onnx {
namespace {

std::vector<double> bias_values(const Tensor& bias, int64_t n) {
  if (!bias.defined()) return {};
  require_dims(bias, {n}, "the bias");
  return doubles_of(bias);
}

std::vector<Tensor> matmul_nbits(const KernelCall& call) {
  const Node& node = call.node;
  require(node.int_or("weight_prepacked", 0) == 0, "the weights are packed for another device; expected the plain layout");
  const NBits shape = {positive_attribute(node, "N"), positive_attribute(node, "K"), positive_attribute(node, "block_size"),
                       node.int_or("bits", 4)};
  const BlockedMatrix w = nbits_matrix(shape, call.input(1), call.input(2), call.optional(3), call.optional(4));
  call.work.take({call.input(0).size(), shape.n});
  return {multiply_rows(call.input(0), w, bias_values(call.optional(5), shape.n))};
}

struct Normed {
  Tensor normed, sum;
};

// RMS normalization of A, or of A + skip, before fused projections; without a scale A is unchanged.
Normed normed_input(const Tensor& a, const Tensor& skip, const Tensor& scale, double epsilon) {
  require_float(a, "A");
  require(a.rank() > 0, "A is a scalar; expected at least one dimension");
  std::vector<double> values = doubles_of(a);
  if (skip.defined()) {
    require(skip.dims() == a.dims(), "A and skip have shapes {} and {}; expected equal shapes", to_string(a.dims()),
            to_string(skip.dims()));
    const std::vector<double> add = doubles_of(skip);
    for (size_t i = 0; i < values.size(); ++i) values[i] += add[i];
  }
  Normed result;
  result.sum = tensor_of(a.dtype(), a.dims(), values);
  if (!scale.defined()) {
    result.normed = result.sum;
    return result;
  }
  require_dims(scale, {a.dim(-1)}, "norm_scale");
  const std::vector<double> factors = doubles_of(scale);
  for (size_t from = 0; !factors.empty() && from < values.size(); from += factors.size()) {
    const std::span<double> row = std::span(values).subspan(from, factors.size());
    normalize_rms(row, epsilon);
    for (size_t i = 0; i < row.size(); ++i) row[i] *= factors[i];
  }
  result.normed = tensor_of(a.dtype(), a.dims(), values);
  return result;
}

Tensor project(const KernelCall& call, const Tensor& x, size_t first_input, int64_t n) {
  const Node& node = call.node;
  const NBits shape = {n, positive_attribute(node, "K"), positive_attribute(node, "block_size"), node.int_or("bits", 4)};
  const BlockedMatrix w = nbits_matrix(shape, call.input(first_input), call.input(first_input + 1), Tensor(), Tensor());
  call.work.take({x.size(), n});
  return multiply_rows(x, w, bias_values(call.optional(first_input + 2), n));
}

std::vector<Tensor> matmul_nbits_mlp(const KernelCall& call) {
  const Node& node = call.node;
  const Normed x = normed_input(call.input(0), call.optional(1), call.optional(2), node.float_or("epsilon", 1e-5f));
  const int64_t n = positive_attribute(node, "N");
  const Tensor gate = project(call, x.normed, 3, n), up = project(call, x.normed, 6, n);
  const std::string_view activation = node.string_or("activation", "");
  require(activation == "silu" || activation == "swish" || activation == "gelu" || activation == "relu",
          "attribute 'activation' is '{}'; expected one of silu, swish, gelu, relu", activation);
  std::vector<double> y = doubles_of(gate);
  const std::vector<double> factor = doubles_of(up);
  for (size_t i = 0; i < y.size(); ++i) {
    const double g = y[i];
    y[i] = factor[i] * (activation == "gelu" ? gelu(g) : activation == "relu" ? std::max(g, 0.0) : g * sigmoid(g));
  }
  return {tensor_of(gate.dtype(), gate.dims(), y), x.sum};
}

std::vector<Tensor> matmul_nbits_qkv(const KernelCall& call) {
  const Node& node = call.node;
  require(call.has(2), "norm_scale is missing");
  const Normed x = normed_input(call.input(0), call.optional(1), call.input(2), node.float_or("epsilon", 1e-5f));
  const int64_t n_q = positive_attribute(node, "Nq"), n_kv = positive_attribute(node, "Nkv");
  return {project(call, x.normed, 3, n_q), project(call, x.normed, 6, n_kv), project(call, x.normed, 9, n_kv), x.sum};
}

// The values of the 16 codes: fp4 (1 + 2 + 1 bits), and nf4, the quantiles of a normal distribution.
constexpr std::array<double, 16> kFp4 = {0,   0.005208333333,  0.66666667,  1,  0.33333333,  0.5,  0.16666667,  0.25,
                                         -0., -0.005208333333, -0.66666667, -1, -0.33333333, -0.5, -0.16666667, -0.25};
constexpr std::array<double, 16> kNf4 = {-1.0,
                                         -0.6961928009986877,
                                         -0.5250730514526367,
                                         -0.39491748809814453,
                                         -0.28444138169288635,
                                         -0.18477343022823334,
                                         -0.09105003625154495,
                                         0.0,
                                         0.07958029955625534,
                                         0.16093020141124725,
                                         0.24611230194568634,
                                         0.33791524171829224,
                                         0.44070982933044434,
                                         0.5626170039176941,
                                         0.7229568362236023,
                                         1.0};

// The weights [n, k], flattened and divided into blocks regardless of rows; high nibble first.
std::vector<double> bnb4_weights(const KernelCall& call, int64_t n, int64_t k) {
  const int64_t block = positive_attribute(call.node, "block_size"), type = call.node.int_or("quant_type", -1);
  require(type == 0 || type == 1, "attribute 'quant_type' is {}; expected 0 or 1", type);
  const int64_t size = element_count(Dims{n, k});
  require(call.input(1).size() == blocks_of(size, 2), "B has shape {}; expected {} bytes", to_string(call.input(1).dims()),
          blocks_of(size, 2));
  require(call.input(2).size() == blocks_of(size, block), "absmax has shape {}; expected {} elements", to_string(call.input(2).dims()),
          blocks_of(size, block));
  const std::span<const uint8_t> bytes = call.input(1).data<uint8_t>();
  const std::vector<double> absmax = doubles_of(call.input(2));
  std::vector<double> result(static_cast<size_t>(size));
  for (size_t i = 0; i < result.size(); ++i) {
    const size_t code = i % 2 == 0 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15;
    result[i] = (type == 0 ? kFp4 : kNf4)[code] * absmax[i / static_cast<size_t>(block)];
  }
  return result;
}

std::vector<Tensor> matmul_bnb4(const KernelCall& call) {
  const Tensor& a = call.input(0);
  require_float(a, "A");
  const int64_t n = positive_attribute(call.node, "N"), k = positive_attribute(call.node, "K");
  const bool transposed = call.node.int_or("transB", 1) != 0;
  const int64_t inner = transposed ? k : n, outer = transposed ? n : k;
  require(a.rank() > 0 && a.dim(-1) == inner, "A has shape {}; expected a last dimension of {}", to_string(a.dims()), inner);
  const std::vector<double> w = bnb4_weights(call, n, k), x = doubles_of(a);
  Dims dims = a.dims();
  dims.back() = outer;
  call.work.take(dims, {inner});
  std::vector<double> y(static_cast<size_t>(new_tensor(a.dtype(), dims).size()));
  const auto in = static_cast<size_t>(inner), out = static_cast<size_t>(outer);
  for (size_t at = 0; at < y.size(); ++at) {
    const size_t r = at / out, c = at % out;
    for (size_t i = 0; i < in; ++i) y[at] += x[r * in + i] * (transposed ? w[c * in + i] : w[i * out + c]);
  }
  return {tensor_of(a.dtype(), dims, y)};
}

}  // namespace

void add_block_quantized(KernelTable& table) {
  table.add(kMicrosoft, "MatMulNBits", matmul_nbits);
  table.add(kMicrosoft, "MatMulNBitsMlp", matmul_nbits_mlp);
  table.add(kMicrosoft, "MatMulNBitsQkv", matmul_nbits_qkv);
  table.add(kMicrosoft, "MatMulBnb4", matmul_bnb4);
}

}  // namespace kvik::onnx
