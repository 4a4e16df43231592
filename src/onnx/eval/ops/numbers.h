#pragma once

#include <initializer_list>
#include <span>

#include "onnx/eval/ops/common.h"

// Tensors of any numeric type as doubles or integers, for kernels that compute in double and round once at the end.
// All throw Error(kBadModel) for unsupported types or shapes.
namespace kvik::onnx {

// The elements of a numeric or bool tensor; exact except for 64-bit integers above 2^53.
std::vector<double> doubles_of(const Tensor& tensor);

// The elements of an integer (2 to 64 bits) or bool tensor.
std::vector<int64_t> integers_of(const Tensor& tensor);

// A tensor of `dtype` with these values: floats are rounded to nearest even, integers of up to 32 bits rounded and then
// clamped to their range. `saturate` is for 8-bit floats, see Float8::cast.
Tensor tensor_of(DType dtype, Dims dims, std::span<const double> values, bool saturate = true);

// Rounds to a float type and back, as writing a value into a tensor of that type would.
double rounded_to(DType dtype, double value);

// -1 matches any size.
void require_dims(const Tensor& tensor, std::initializer_list<int64_t> dims, std::string_view name);
void require_float(const Tensor& tensor, std::string_view name);  // f32, f64, f16 or bf16

// A required attribute of at least 1 and below 2^31.
int64_t positive_attribute(const Node& node, std::string_view attribute);
// An attribute with a type; kUndefined if absent.
DType dtype_attribute(const Node& node, std::string_view attribute);

// Element i of packed values, lowest bits first.
inline unsigned packed_bits(std::span<const uint8_t> bytes, size_t bits, size_t i) {
  return (static_cast<unsigned>(bytes[i * bits / 8]) >> (i * bits % 8)) & ((1u << bits) - 1);
}

inline int64_t blocks_of(int64_t n, int64_t block) { return n / block + (n % block != 0 ? 1 : 0); }

}  // namespace kvik::onnx
