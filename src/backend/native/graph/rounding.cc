#include "backend/native/graph/rounding.h"

#include <cmath>

namespace kvik::native {
namespace {

std::optional<float> first_code(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kU8: return static_cast<float>(tensor.data<uint8_t>()[0]);
    case DType::kI8: return static_cast<float>(tensor.data<int8_t>()[0]);
    case DType::kU16: return static_cast<float>(tensor.data<uint16_t>()[0]);
    case DType::kI16: return static_cast<float>(tensor.data<int16_t>()[0]);
    default: return {};
  }
}

struct Limits {
  float low, high;
};
std::optional<Limits> limits(DType codes) {
  switch (codes) {
    case DType::kU8: return Limits{0.0f, 255.0f};
    case DType::kI8: return Limits{-128.0f, 127.0f};
    case DType::kU16: return Limits{0.0f, 65535.0f};
    case DType::kI16: return Limits{-32768.0f, 32767.0f};
    default: return {};
  }
}

}  // namespace

std::optional<CodeGrid> code_grid(const Tensor& scale, const Tensor* zero_point, DType otherwise) {
  if (scale.dtype() != DType::kF32 || scale.size() != 1 || !std::isnormal(scale.data<float>()[0])) return {};
  CodeGrid grid{scale.data<float>()[0], 0.0f, otherwise};
  if (zero_point == nullptr) return grid;
  const std::optional<float> number = zero_point->size() == 1 ? first_code(*zero_point) : std::nullopt;
  if (!number) return {};
  grid.zero_point = *number;
  grid.codes = zero_point->dtype();
  return grid;
}

std::optional<Rounding> rounding_of(const CodeGrid& to, const CodeGrid& from) {
  const std::optional<Limits> range = limits(to.codes);
  if (!range || to.codes != from.codes || to.zero_point != from.zero_point) return {};
  return Rounding{.step = to.scale, .low = range->low - to.zero_point, .high = range->high - to.zero_point, .unit = from.scale};
}

}  // namespace kvik::native
