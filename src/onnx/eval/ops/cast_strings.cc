#include "onnx/eval/ops/cast_strings.h"

#include <charconv>
#include <cmath>

#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {
namespace {

template <class T>
std::string text_of(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
  }
  return fmt::format("{}", value);
}

double parse_real(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);  // knows inf and nan in any case
  require(error == std::errc() && end == rest.data() + rest.size(), "the string '{}' is not a number", text);
  return value;
}

int64_t parse_whole(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error == std::errc() && end == rest.data() + rest.size()) return value;
  return cast(Tensor::scalar(parse_real(text)), DType::kI64).data<int64_t>()[0];
}

}  // namespace

Tensor to_strings(const Tensor& tensor) {
  Tensor result = new_tensor(DType::kString, tensor.dims());
  const auto to = result.mutable_data<std::string>();
  if (tensor.dtype() == DType::kBool) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = std::string(1, tensor.data<bool>()[i] ? '1' : '0');
    return result;
  }
  const Tensor wide = widened(tensor);
  visit_numeric(wide.dtype(), [&]<class T>(Type<T>) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = text_of(wide.data<T>()[i]);
  });
  return result;
}

Tensor parse_numbers(const Tensor& strings, bool whole) {
  Tensor result = new_tensor(whole ? DType::kI64 : DType::kF64, strings.dims());
  const auto from = strings.data<std::string>();
  for (size_t i = 0; i < from.size(); ++i) {
    if (whole) {
      result.mutable_data<int64_t>()[i] = parse_whole(from[i]);
    } else {
      result.mutable_data<double>()[i] = parse_real(from[i]);
    }
  }
  return result;
}

}  // namespace kvik::onnx
