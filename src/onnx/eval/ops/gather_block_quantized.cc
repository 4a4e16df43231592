#include "onnx/eval/groups.h"
#include "onnx/eval/ops/numbers.h"

namespace kvik::onnx {
namespace {

// A quantized table: logical dimensions (a byte with several codes counts as several elements) and quantization.
struct Table {
  Dims dims;
  int gather_axis = 0, quantize_axis = 0;
  int64_t block = 0;
  size_t bits = 0;
  bool in_bytes = false;  // u8, whose codes are packed along the last axis; otherwise a 4-bit type

  int64_t per_byte() const { return in_bytes ? 8 / static_cast<int64_t>(bits) : 1; }
};

Table table_of(const KernelCall& call) {
  const Tensor& data = call.input(0);
  const Node& node = call.node;
  Table t;
  t.dims = data.dims();
  t.in_bytes = data.dtype() == DType::kU8;
  const int64_t bits = node.int_or("bits", 4);
  require(t.in_bytes ? bits == 2 || bits == 4 || bits == 8 : (data.dtype() == DType::kU4 || data.dtype() == DType::kI4) && bits == 4,
          "data of type {} cannot have codes of {} bits", dtype_name(data.dtype()), bits);
  t.bits = static_cast<size_t>(bits);
  t.gather_axis = normal_axis(node.int_or("gather_axis", 0), data.rank());
  t.quantize_axis = normal_axis(node.int_or("quantize_axis", 1), data.rank());
  t.block = node.int_or("block_size", 128);
  require(t.block >= 16 && (t.block & (t.block - 1)) == 0, "attribute 'block_size' is {}; expected a power of two of at least 16", t.block);
  if (t.in_bytes) {
    require(t.gather_axis == 0 && t.quantize_axis == data.rank() - 1 && data.rank() > 1,
            "packed bytes of shape {} are gathered along axis {} and quantized along {}", to_string(data.dims()), t.gather_axis,
            t.quantize_axis);
    t.dims.back() *= t.per_byte();
  }
  return t;
}

std::vector<double> codes_of(const Tensor& data, const Table& t) {
  if (!t.in_bytes || t.bits == 8) return doubles_of(data);
  const std::span<const uint8_t> bytes = data.data<uint8_t>();
  std::vector<double> codes(static_cast<size_t>(element_count(t.dims)));
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = packed_bits(bytes, t.bits, i);
  return codes;
}

// One per scale.
std::vector<double> zero_points_of(const KernelCall& call, const Table& t, const Dims& scales) {
  if (!call.has(3))
    return std::vector<double>(static_cast<size_t>(element_count(scales)), t.in_bytes ? static_cast<double>(1u << (t.bits - 1)) : 0.0);
  const Tensor& zero_points = call.input(3);
  require_same_dtype(call.input(0), zero_points);
  Dims stored = scales;
  stored.back() = blocks_of(scales.back(), t.per_byte());
  require(zero_points.dims() == stored, "the zero points have shape {}; expected {}", to_string(zero_points.dims()), to_string(stored));
  if (t.per_byte() == 1) return doubles_of(zero_points);
  const std::span<const uint8_t> bytes = zero_points.data<uint8_t>();
  std::vector<double> result(static_cast<size_t>(element_count(scales)));
  const auto row = static_cast<size_t>(scales.back()), row_bytes = static_cast<size_t>(stored.back());
  for (size_t i = 0; i < result.size(); ++i) result[i] = packed_bits(bytes.subspan(i / row * row_bytes, row_bytes), t.bits, i % row);
  return result;
}

std::vector<Tensor> gather_block_quantized(const KernelCall& call) {
  const Tensor &indices = call.input(1), &scales = call.input(2);
  const Table t = table_of(call);
  require_float(scales, "the scales");
  Dims wanted = t.dims;
  wanted[static_cast<size_t>(t.quantize_axis)] = blocks_of(t.dims[static_cast<size_t>(t.quantize_axis)], t.block);
  require(scales.dims() == wanted, "the scales have shape {}; expected {}", to_string(scales.dims()), to_string(wanted));
  const std::vector<double> codes = codes_of(call.input(0), t), factors = doubles_of(scales), zeros = zero_points_of(call, t, wanted);
  const std::vector<int64_t> chosen = integers_of(indices);

  Dims dims(t.dims.begin(), t.dims.begin() + t.gather_axis);
  dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), t.dims.begin() + t.gather_axis + 1, t.dims.end());
  const AxisSplit gather = split_at(t.dims, t.gather_axis), quantize = split_at(t.dims, t.quantize_axis);
  const int64_t blocks = wanted[static_cast<size_t>(t.quantize_axis)];
  std::vector<double> y(static_cast<size_t>(new_tensor(scales.dtype(), dims).size()));
  const auto n_chosen = static_cast<int64_t>(chosen.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    int64_t index = chosen[static_cast<size_t>(at / gather.inner % n_chosen)];
    require(index >= -gather.n && index < gather.n, "index {} is outside an axis of {} elements", index, gather.n);
    if (index < 0) index += gather.n;
    const int64_t from = (at / (gather.inner * n_chosen) * gather.n + index) * gather.inner + at % gather.inner;
    const int64_t along = from / quantize.inner % quantize.n;
    const int64_t outer = from / (quantize.inner * quantize.n);
    const auto block = static_cast<size_t>((outer * blocks + along / t.block) * quantize.inner + from % quantize.inner);
    y[i] = (codes[static_cast<size_t>(from)] - zeros[block]) * factors[block];
  }
  return {tensor_of(scales.dtype(), dims, y)};
}

}  // namespace

void add_gather_block_quantized(KernelTable& table) { table.add(kMicrosoft, "GatherBlockQuantized", gather_block_quantized); }

}  // namespace kvik::onnx
