#include <algorithm>

#include "backend/native/lower/lowering.h"

// Products of rows by constant matrices, and lookups in constant tables.
namespace kvik::native {
namespace {

using onnx::kNoValue;
using onnx::Node;
using onnx::ValueId;

ValueId constant_id(const Lowering& lowering, const LowerItem& item, size_t i) {
  return item.is_constant(i) ? lowering.program().constants[static_cast<size_t>(item.op.inputs[i].index)].value : kNoValue;
}

// Rows of x by a matrix, or by a stack of matrices with as many groups of rows.
struct Product {
  ValueId matrix = kNoValue;
  Dims dims;  // of the matrix in the file: [stack …, k, n], or n and k swapped
  bool n_major = false;
  float alpha = 1.0f;
};

bool is_ones(std::span<const int64_t> dims) {
  return std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim == 1; });
}

std::optional<Input> emit_product(Lowering& lowering, const LowerItem& item, const Product& product, const Input& bias) {
  const size_t rank = product.dims.size();
  const Dims x_dims = lowering.dims(item, 0);
  if (rank < 2 || x_dims.empty() || lowering.dtype(item, 0) != DType::kF32) return {};
  const int64_t k = product.dims[rank - (product.n_major ? 1 : 2)], n = product.dims[rank - (product.n_major ? 2 : 1)];
  const std::span<const int64_t> stack = std::span(product.dims).first(rank - 2);
  const int64_t groups = element_count(stack);
  if (k < 1 || n < 1 || groups < 1 || x_dims.back() != k) return {};
  Matmul matmul;
  const Input x = lowering.input(item, 0);
  if (groups > 1) {
    const std::span<const int64_t> batch = std::span<const int64_t>(x_dims).first(x_dims.size() < 2 ? 0 : x_dims.size() - 2);
    matmul.shared = is_ones(batch);
    const bool alike = batch.size() >= stack.size() && is_ones(batch.first(batch.size() - stack.size())) &&
                       std::equal(stack.begin(), stack.end(), batch.end() - static_cast<ptrdiff_t>(stack.size()));
    if (!matmul.shared && !alike) return {};
  }
  for (int64_t g = 0; g < groups; ++g) {
    const GraphMatrix part{product.matrix, product.n_major, rank == 2 ? -1 : g, k, n};
    matmul.weights.push_back(lowering.add_matrix(part));
  }
  const int64_t rows = x.size / k / (matmul.shared ? 1 : groups);
  const bool scaled = product.alpha != 1.0f;
  Input out = lowering.emit(item, std::move(matmul), {x, scaled ? Input{} : bias}, rows * groups * n);
  if (!scaled) return out;
  const int alpha = lowering.plan().add_constant(Tensor::of<float>({1}, {product.alpha}));
  out = lowering.emit(item, BinaryOp{Binary::kMul, Spread::kAll, Spread::kOne}, {out, {Input::Kind::kConstant, alpha, 0, 1}}, out.size);
  if (!bias) return out;
  return lowering.emit(item, BinaryOp{Binary::kAdd, Spread::kAll, Spread::kEvery, out.size / bias.size}, {out, bias}, out.size);
}

bool lower_product(Lowering& lowering, const LowerItem& item, Product product, const Input& bias = {}) {
  product.matrix = constant_id(lowering, item, 1);
  product.dims = lowering.dims(item, 1);
  if (product.matrix == kNoValue || item.is_constant(0)) return false;
  const std::optional<Input> out = emit_product(lowering, item, product, bias);
  if (!out || out->size != element_count(lowering.out_dims(item))) return false;
  lowering.set(item, 0, *out);
  return true;
}

bool lower_matmul(Lowering& lowering, const LowerItem& item) { return lower_product(lowering, item, {}); }

bool lower_fused_matmul(Lowering& lowering, const LowerItem& item) {
  if (item.node.int_or("transA", 0) != 0 || item.node.int_or("transBatchA", 0) != 0 || item.node.int_or("transBatchB", 0) != 0)
    return false;
  Product product;
  product.n_major = item.node.int_or("transB", 0) != 0;
  product.alpha = item.node.float_or("alpha", 1.0f);
  return lower_product(lowering, item, product);
}

bool lower_gemm(Lowering& lowering, const LowerItem& item) {
  if (item.node.int_or("transA", 0) != 0) return false;
  Product product;
  product.n_major = item.node.int_or("transB", 0) != 0;
  product.alpha = item.node.float_or("alpha", 1.0f);
  Input bias;
  if (item.has(2)) {
    if (!item.is_constant(2) || item.node.float_or("beta", 1.0f) != 1.0f || lowering.dims(item, 1).size() != 2) return false;
    const int64_t n = lowering.dims(item, 1)[product.n_major ? 0 : 1];
    const Dims dims = lowering.dims(item, 2);
    if (dims.empty() || dims.back() != n || element_count(dims) != n) return false;
    bias = lowering.input(item, 2);
  }
  return lower_product(lowering, item, product, bias);
}

// The tensors beside the codes of a quantized operator must be constants.
bool set_quantized(const Lowering& lowering, const LowerItem& item, GraphMatrix& part, size_t codes, size_t scales, size_t zero_points) {
  part.quantized_by = item.op.node;
  part.value = constant_id(lowering, item, codes);
  part.scales = constant_id(lowering, item, scales);
  part.zero_points = item.has(zero_points) ? constant_id(lowering, item, zero_points) : kNoValue;
  const bool known = part.value != kNoValue && part.scales != kNoValue && (!item.has(zero_points) || part.zero_points != kNoValue);
  return known && !(item.has(zero_points) && is_float(lowering.dtype(item, zero_points)));
}

bool lower_nbits(Lowering& lowering, const LowerItem& item) {
  const int64_t bits = item.node.int_or("bits", 4);
  GraphMatrix part;
  part.k = item.node.int_or("K", 0);
  part.n = item.node.int_or("N", 0);
  part.n_major = true;
  const bool plain = (bits == 4 || bits == 8) && !item.has(4) && part.k > 0 && part.n > 0 && lowering.dtype(item, 0) == DType::kF32;
  if (!plain || !set_quantized(lowering, item, part, 1, 2, 3)) return false;
  if (item.has(5) && !item.is_constant(5)) return false;
  const Input x = lowering.input(item, 0);
  if (x.size % part.k != 0) return false;
  const int weight = lowering.add_matrix(part);  // accuracy_level allows less than f32, never asks for it
  lowering.set(item, 0, lowering.emit(item, Matmul{{weight}}, {x, lowering.input(item, 5)}, x.size / part.k * part.n));
  return true;
}

bool lower_dynamic_quantized(Lowering& lowering, const LowerItem& item) {
  const Dims dims = lowering.dims(item, 1);
  if (dims.size() != 2 || lowering.dtype(item, 0) != DType::kF32 || (item.has(4) && !item.is_constant(4))) return false;
  GraphMatrix part;
  part.k = dims[0];
  part.n = dims[1];
  const Input x = lowering.input(item, 0);
  if (!set_quantized(lowering, item, part, 1, 2, 3) || x.size % part.k != 0) return false;
  const int weight = lowering.add_matrix(part, Activations::kBytes);
  lowering.set(item, 0, lowering.emit(item, Matmul{{weight}}, {x, lowering.input(item, 4)}, x.size / part.k * part.n));
  return true;
}

// A convolution whose window is all there is, as over a state and the newest row: each output is one product.
struct Window {
  int64_t n_out = 0, groups = 1, size = 0;  // size: elements that one output sees
};

std::optional<Window> whole_window(const Lowering& lowering, const LowerItem& item) {
  const Dims x = lowering.dims(item, 0), w = lowering.dims(item, 1);
  const std::vector<int64_t> pads = item.node.ints_or("pads", {});
  const bool padded = std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; });
  const std::string_view automatic = item.node.string_or("auto_pad", "NOTSET");
  if (padded || (automatic != "NOTSET" && automatic != "VALID") || x.size() != w.size() || x.size() < 3 || x[0] != 1) return {};
  if (!std::equal(x.begin() + 2, x.end(), w.begin() + 2)) return {};
  const Window window{w[0], item.node.int_or("group", 1), element_count(std::span<const int64_t>(w).subspan(1))};
  const bool fits = window.groups >= 1 && window.n_out % window.groups == 0 && x[1] == w[1] * window.groups && window.size > 0;
  if (!fits || element_count(lowering.out_dims(item)) != window.n_out) return {};
  return window;
}

bool lower_conv(Lowering& lowering, const LowerItem& item) {
  constexpr int64_t kMostGroups = 64;
  if (!item.is_constant(1) || (item.has(2) && !item.is_constant(2)) || lowering.dtype(item, 0) != DType::kF32) return false;
  const std::optional<Window> window = whole_window(lowering, item);
  if (!window) return false;
  const Input x = lowering.input(item, 0), bias = lowering.input(item, 2);
  Input y;
  if (window->groups == window->n_out) {
    const Input products = lowering.emit(item, BinaryOp{Binary::kMul}, {x, lowering.input(item, 1)}, x.size);
    y = lowering.emit(item, ReduceOp{Reduce::kSum, window->groups}, {products}, window->groups);
  } else if (window->groups <= kMostGroups) {
    Matmul matmul;
    for (int64_t g = 0; g < window->groups; ++g) {
      const int64_t slice = window->groups == 1 ? -1 : g;
      const GraphMatrix part{constant_id(lowering, item, 1), true, slice, window->size, window->n_out / window->groups};
      matmul.weights.push_back(lowering.add_weight(part));
    }
    y = lowering.emit(item, std::move(matmul), {x, Input{}}, window->n_out);
  } else {
    return false;
  }
  lowering.set(item, 0, bias ? lowering.emit(item, BinaryOp{Binary::kAdd}, {y, bias}, y.size) : y);
  return true;
}

bool emit_embedding(Lowering& lowering, const LowerItem& item, const GraphMatrix& part) {
  const Input token = lowering.input(item, 1);
  const bool lookup =
      token.is_value() && token.size == 1 && (lowering.dtype(item, 1) == DType::kI64 || lowering.dtype(item, 1) == DType::kI32);
  if (!lookup || element_count(lowering.out_dims(item)) != part.k) return false;
  lowering.set(item, 0, lowering.emit(item, Embed{lowering.add_matrix(part)}, {token}, part.k));
  return true;
}

bool lower_quantized_embedding(Lowering& lowering, const LowerItem& item) {
  const Dims dims = lowering.dims(item, 0);
  if (dims.size() != 2 || item.is_constant(1) || item.node.int_or("gather_axis", 0) != 0) return false;
  GraphMatrix part;
  part.n = dims[0];
  part.k = element_count(lowering.out_dims(item));
  part.n_major = true;
  const int64_t axis = item.node.int_or("quantize_axis", 1);
  if ((axis != 1 && axis != -1) || part.k % item.node.int_or("block_size", 128) != 0) return false;
  return set_quantized(lowering, item, part, 0, 2, 3) && emit_embedding(lowering, item, part);
}

}  // namespace

bool lower_embedding(Lowering& lowering, const LowerItem& item) {
  const Dims dims = lowering.dims(item, 0);
  if (!item.is_constant(0) || item.is_constant(1) || dims.size() != 2 || item.node.int_or("axis", 0) != 0) return false;
  if (lowering.out_dtype(item) != DType::kF32 || dims[0] < 1 || dims[1] < 1) return false;
  GraphMatrix part;
  part.value = constant_id(lowering, item, 0);
  part.n_major = true;
  part.n = dims[0];
  part.k = dims[1];
  return emit_embedding(lowering, item, part);
}

void add_product_rules(LowerRules& rules) {
  rules[{"", "MatMul"}] = lower_matmul;
  rules[{"", "Gemm"}] = lower_gemm;
  rules[{"", "Conv"}] = lower_conv;
  rules[{"com.microsoft", "FusedMatMul"}] = lower_fused_matmul;
  rules[{"com.microsoft", "MatMulNBits"}] = lower_nbits;
  rules[{"com.microsoft", "DynamicQuantizeMatMul"}] = lower_dynamic_quantized;
  rules[{"com.microsoft", "GatherBlockQuantized"}] = lower_quantized_embedding;
}

}  // namespace kvik::native
