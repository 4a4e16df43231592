#include "onnx/eval/groups.h"
#include "onnx/eval/ops/matmul_plan.h"
#include "onnx/eval/ops/numbers.h"

// Matmuls with weights in small floats and one scale per block of a row.
namespace kvik::onnx {
namespace {

// Bytes as f8e4m3fn.
std::vector<double> e4m3_of_bytes(const Tensor& bytes) {
  const std::span<const uint8_t> codes = bytes.data<uint8_t>();
  std::vector<double> result;
  result.reserve(codes.size());
  for (const uint8_t code : codes) {
    Float8E4M3FN value;
    value.bits = code;
    result.push_back(static_cast<float>(value));
  }
  return result;
}

std::vector<double> scaled(std::vector<double> weights, const std::vector<double>& scales, int64_t k, int64_t block) {
  const auto columns = static_cast<size_t>(k), blocks = static_cast<size_t>(blocks_of(k, block));
  for (size_t i = 0; i < weights.size(); ++i) weights[i] *= scales[i / columns * blocks + i % columns / static_cast<size_t>(block)];
  return weights;
}

std::vector<Tensor> product_with(const Tensor& a, const std::vector<double>& x, const std::vector<double>& w, int64_t k,
                                 const Tensor& bias) {
  const int64_t n = static_cast<int64_t>(w.size()) / k;
  std::vector<double> add;
  if (bias.defined()) {
    require_dims(bias, {n}, "the bias");
    add = doubles_of(bias);
  }
  Dims dims = a.dims();
  dims.back() = n;
  return {tensor_of(a.dtype(), dims, multiply_transposed(x, w, add, k))};
}

void require_columns(const Tensor& a, int64_t k) {
  require_float(a, "A");
  require(a.rank() > 0 && a.dim(-1) == k && k > 0, "A has shape {}; expected a last dimension of {}", to_string(a.dims()), k);
}

std::vector<Tensor> matmul_fp4(const KernelCall& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  require_rank(b, 2, "B");
  const int64_t n = b.dim(0), k = b.dim(1) * 2, block = call.node.int_or("block_size", 16);
  require_columns(a, k);
  require(block > 0, "attribute 'block_size' is {}; expected a positive number", block);
  require_dims(call.input(2), {n, blocks_of(k, block)}, "weight_scale");
  call.work.take({a.size(), n});
  const std::span<const uint8_t> bytes = b.data<uint8_t>();
  const double global = as_double(call.input(3));
  std::vector<double> weights(static_cast<size_t>(element_count(Dims{n, k})));
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = decode_f4e2m1(static_cast<uint8_t>(packed_bits(bytes, 4, i))) * global;
  return product_with(a, doubles_of(a), scaled(std::move(weights), e4m3_of_bytes(call.input(2)), k, block), k, call.optional(5));
}

std::vector<Tensor> matmul_fp8(const KernelCall& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  require_rank(b, 2, "B");
  const int64_t n = b.dim(0), k = b.dim(1), block = call.node.int_or("block_size", 128);
  require_columns(a, k);
  require(block > 0, "attribute 'block_size' is {}; expected a positive number", block);
  require_dims(call.input(2), {n, blocks_of(k, block)}, "b_scale");
  call.work.take({a.size(), n});
  std::vector<double> x = doubles_of(a);
  if (call.has(3)) {
    const double scale = as_double(call.input(3));
    for (double& value : x) value = static_cast<float>(Float8E4M3FN(static_cast<float>(value / scale))) * scale;
  }
  return product_with(a, x, scaled(doubles_of(b), doubles_of(call.input(2)), k, block), k, call.optional(4));
}

}  // namespace

void add_block_float(KernelTable& table) {
  table.add(kMicrosoft, "MatMulBlockQuantizedFp4Weight", matmul_fp4);
  table.add(kMicrosoft, "MatMulBlockQuantizedFp8Weight", matmul_fp8);
}

}  // namespace kvik::onnx
