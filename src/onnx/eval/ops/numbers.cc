#include "onnx/eval/ops/numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {
namespace {

Tensor bools_as_bytes(const Tensor& tensor) {
  Tensor result(DType::kU8, tensor.dims());
  const std::span<const bool> from = tensor.data<bool>();
  std::ranges::copy(from, result.mutable_data<uint8_t>().begin());
  return result;
}

template <class T>
Tensor float8_tensor(Dims dims, std::span<const double> values, bool saturate) {
  Tensor result(kDTypeOf<T>, std::move(dims));
  const std::span<T> target = result.mutable_data<T>();
  for (size_t i = 0; i < target.size(); ++i) target[i] = T::cast(static_cast<float>(values[i]), saturate);
  return result;
}

template <class T>
Tensor plain_tensor(Dims dims, std::span<const double> values) {
  Tensor result(kDTypeOf<T>, std::move(dims));
  std::ranges::transform(values, result.mutable_data<T>().begin(), [](double value) { return static_cast<T>(value); });
  return result;
}

struct IntegerRange {
  double low, high;
};

IntegerRange range_of(DType dtype) {
  const int bits = bits_per_element(dtype);
  require(is_integer(dtype) && bits <= 32, "found {}; expected a smaller number type", dtype_name(dtype));
  switch (dtype) {
    case DType::kI2:
    case DType::kI4:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32: return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1};
    default: return {0, std::ldexp(1.0, bits) - 1};
  }
}

double clamped(double value, IntegerRange range) {
  return std::isnan(value) ? 0.0 : std::clamp(std::nearbyint(value), range.low, range.high);
}

Tensor integer_tensor(DType dtype, Dims dims, std::span<const double> values) {
  const IntegerRange range = range_of(dtype);
  const bool packed = bits_per_element(dtype) < 8;
  const DType wide = !packed ? dtype : range.low < 0 ? DType::kI8 : DType::kU8;
  Tensor result(wide, std::move(dims));
  visit_integer(wide, [&]<class T>(Type<T>) {
    std::ranges::transform(values, result.mutable_data<T>().begin(), [&](double value) { return static_cast<T>(clamped(value, range)); });
  });
  return packed ? narrowed(result, dtype) : result;
}

}  // namespace

std::vector<double> doubles_of(const Tensor& tensor) {
  return as_doubles(tensor.dtype() == DType::kBool ? bools_as_bytes(tensor) : tensor);
}

std::vector<int64_t> integers_of(const Tensor& tensor) {
  return as_ints(tensor.dtype() == DType::kBool ? bools_as_bytes(tensor) : is_integer(tensor.dtype()) ? widened(tensor) : tensor);
}

Tensor tensor_of(DType dtype, Dims dims, std::span<const double> values, bool saturate) {
  require(static_cast<size_t>(element_count(dims)) == values.size(), "{} values do not fill a tensor of shape {}", values.size(),
          to_string(dims));
  switch (dtype) {
    case DType::kF32: return plain_tensor<float>(std::move(dims), values);
    case DType::kF64: return plain_tensor<double>(std::move(dims), values);
    case DType::kF16:
    case DType::kBF16:
    case DType::kF4E2M1: return narrowed(plain_tensor<float>(std::move(dims), values), dtype);
    case DType::kF8E4M3FN: return float8_tensor<Float8E4M3FN>(std::move(dims), values, saturate);
    case DType::kF8E4M3FNUZ: return float8_tensor<Float8E4M3FNUZ>(std::move(dims), values, saturate);
    case DType::kF8E5M2: return float8_tensor<Float8E5M2>(std::move(dims), values, saturate);
    case DType::kF8E5M2FNUZ: return float8_tensor<Float8E5M2FNUZ>(std::move(dims), values, saturate);
    default: return integer_tensor(dtype, std::move(dims), values);
  }
}

double rounded_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kF32: return static_cast<float>(value);
    case DType::kF16: return static_cast<float>(Half(static_cast<float>(value)));
    case DType::kBF16: return static_cast<float>(BFloat16(static_cast<float>(value)));
    default: return value;
  }
}

void require_dims(const Tensor& tensor, std::initializer_list<int64_t> dims, std::string_view name) {
  const auto fits = [](int64_t wanted, int64_t found) { return wanted == -1 || found == wanted; };
  const bool same = tensor.dims().size() == dims.size() && std::equal(dims.begin(), dims.end(), tensor.dims().begin(), fits);
  require(same, "{} has shape {}; expected {} (-1: any)", name, to_string(tensor.dims()),
          to_string(std::span<const int64_t>(dims.begin(), dims.size())));
}

void require_float(const Tensor& tensor, std::string_view name) {
  const DType dtype = tensor.dtype();
  require(dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 || dtype == DType::kBF16,
          "{} is of {}; expected one of f32, f64, f16, bf16", name, dtype_name(dtype));
}

int64_t positive_attribute(const Node& node, std::string_view attribute) {
  const int64_t value = node.int_or(attribute, 0);
  require(value >= 1 && value <= std::numeric_limits<int32_t>::max(), "attribute '{}' is {}; expected a positive number", attribute, value);
  return value;
}

DType dtype_attribute(const Node& node, std::string_view attribute) {
  const int64_t value = node.int_or(attribute, 0);
  require(value >= 0 && value <= kLastDType, "attribute '{}' is {}, which is the number of no type", attribute, value);
  return static_cast<DType>(value);
}

}  // namespace kvik::onnx
