#include "onnx/eval/ops/cast.h"

#include <bit>
#include <cmath>
#include <limits>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {
namespace {

constexpr size_t kChunk = 1024;

// Elements in an intermediate form that represents every source type exactly.
struct Numbers {
  enum class Kind { kReal, kSigned, kUnsigned };
  Kind kind = Kind::kReal;
  size_t n = 0;
  std::array<double, kChunk> real;
  std::array<int64_t, kChunk> whole;  // the bits of a uint64_t for kUnsigned

  double as_double(size_t i) const {
    if (kind == Kind::kReal) return real[i];
    return kind == Kind::kSigned ? static_cast<double>(whole[i]) : static_cast<double>(static_cast<uint64_t>(whole[i]));
  }
};

// Rounds to odd, so that a second rounding to fewer bits gives the same result as a single one.
float to_float_for_rounding(double x) {
  const auto nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || std::isnan(x) || std::isinf(nearest)) return nearest;
  const uint32_t code = std::bit_cast<uint32_t>(nearest);
  if ((code & 1u) != 0) return nearest;
  const float up = x > static_cast<double>(nearest) ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
  return std::nextafter(nearest, up);
}

template <class T>
T clamp_to(double x) {
  if (std::isnan(x)) return 0;
  // 2^31 and 2^63 are exact as doubles; one less is not always.
  const double limit = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (x >= limit) return std::numeric_limits<T>::max();
  if (x < (std::is_signed_v<T> ? -limit : 0.0)) return std::numeric_limits<T>::lowest();
  return static_cast<T>(x);
}

template <class T>
T to_integer(double x) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    return x < 0 ? static_cast<T>(clamp_to<int64_t>(x)) : clamp_to<T>(x);
  } else if constexpr (std::is_same_v<T, uint32_t> || std::is_same_v<T, int64_t>) {
    return static_cast<T>(clamp_to<int64_t>(x));
  } else {
    return static_cast<T>(clamp_to<int32_t>(x));
  }
}

void read_chunk(const Tensor& tensor, size_t begin, Numbers& numbers) {
  numbers.n = std::min(kChunk, static_cast<size_t>(tensor.size()) - begin);
  if (tensor.dtype() == DType::kBool) {
    numbers.kind = Numbers::Kind::kUnsigned;
    for (size_t i = 0; i < numbers.n; ++i) numbers.whole[i] = tensor.data<bool>()[begin + i] ? 1 : 0;
    return;
  }
  visit_numeric(tensor.dtype(), [&]<class T>(Type<T>) {
    const auto from = tensor.data<T>().subspan(begin, numbers.n);
    if constexpr (std::is_floating_point_v<T>) {
      numbers.kind = Numbers::Kind::kReal;
      for (size_t i = 0; i < numbers.n; ++i) numbers.real[i] = static_cast<double>(from[i]);
    } else {
      numbers.kind = std::is_signed_v<T> ? Numbers::Kind::kSigned : Numbers::Kind::kUnsigned;
      for (size_t i = 0; i < numbers.n; ++i) numbers.whole[i] = static_cast<int64_t>(from[i]);
    }
  });
}

template <class T>
void write_integers(const Numbers& numbers, std::span<T> to) {
  const bool real = numbers.kind == Numbers::Kind::kReal;
  for (size_t i = 0; i < numbers.n; ++i) to[i] = real ? to_integer<T>(numbers.real[i]) : static_cast<T>(numbers.whole[i]);
}

template <class T>
void write_floats(const Numbers& numbers, std::span<T> to) {
  if (numbers.kind == Numbers::Kind::kSigned) {  // one rounding, not two
    for (size_t i = 0; i < numbers.n; ++i) to[i] = static_cast<T>(numbers.whole[i]);
  } else if (numbers.kind == Numbers::Kind::kUnsigned) {
    for (size_t i = 0; i < numbers.n; ++i) to[i] = static_cast<T>(static_cast<uint64_t>(numbers.whole[i]));
  } else {
    for (size_t i = 0; i < numbers.n; ++i) to[i] = static_cast<T>(numbers.real[i]);
  }
}

template <class T>
void write_small_floats(const Numbers& numbers, std::span<T> to, const CastOptions& options) {
  for (size_t i = 0; i < numbers.n; ++i) {
    const float value = to_float_for_rounding(numbers.as_double(i));
    if constexpr (requires { T::cast(value, true); }) {
      to[i] = T::cast(value, options.saturate);
    } else {
      to[i] = T(value);
    }
  }
}

// Rounds to a power of two; drops the sign. Infinity and NaN become NaN, zero becomes the smallest power.
Float8E8M0 to_power_of_two(float value, const CastOptions& options) {
  const uint32_t code = std::bit_cast<uint32_t>(value);
  uint32_t exponent = (code >> 23) & 0xFFu;
  const uint32_t fraction = code & 0x7FFFFFu;
  Float8E8M0 result;
  result.bits = 0xFF;
  if (exponent == 0xFF) return result;
  bool up = false;
  if (options.round_mode == "up") {
    up = fraction != 0;
  } else if (options.round_mode == "nearest") {  // halves round up, except for subnormal numbers
    up = (fraction & 0x400000u) != 0 && ((fraction & 0x3FFFFFu) != 0 || exponent > 0);
  } else {
    require(options.round_mode == "down", "round_mode '{}' is unknown; expected 'up', 'down' or 'nearest'", options.round_mode);
  }
  if (up && !(options.saturate && exponent == 0xFE)) ++exponent;
  result.bits = static_cast<uint8_t>(exponent);
  return result;
}

void write_powers(const Numbers& numbers, std::span<Float8E8M0> to, const CastOptions& options) {
  for (size_t i = 0; i < numbers.n; ++i) to[i] = to_power_of_two(static_cast<float>(numbers.as_double(i)), options);
}

void write_bools(const Numbers& numbers, std::span<bool> to) {
  const bool real = numbers.kind == Numbers::Kind::kReal;
  for (size_t i = 0; i < numbers.n; ++i) to[i] = real ? numbers.real[i] != 0 : numbers.whole[i] != 0;
}

void write_chunk(const Numbers& numbers, Tensor& result, size_t begin, const CastOptions& options) {
  const auto small = [&]<class T>(Type<T>) { write_small_floats<T>(numbers, result.mutable_data<T>().subspan(begin), options); };
  switch (result.dtype()) {
    case DType::kF32: return write_floats(numbers, result.mutable_data<float>().subspan(begin));
    case DType::kF64: return write_floats(numbers, result.mutable_data<double>().subspan(begin));
    case DType::kF16: return small(Type<Half>());
    case DType::kBF16: return small(Type<BFloat16>());
    case DType::kF8E4M3FN: return small(Type<Float8E4M3FN>());
    case DType::kF8E4M3FNUZ: return small(Type<Float8E4M3FNUZ>());
    case DType::kF8E5M2: return small(Type<Float8E5M2>());
    case DType::kF8E5M2FNUZ: return small(Type<Float8E5M2FNUZ>());
    case DType::kF8E8M0: return write_powers(numbers, result.mutable_data<Float8E8M0>().subspan(begin), options);
    case DType::kBool: return write_bools(numbers, result.mutable_data<bool>().subspan(begin));
    default: visit_integer(result.dtype(), [&]<class T>(Type<T>) { write_integers<T>(numbers, result.mutable_data<T>().subspan(begin)); });
  }
}

// The type that a cast writes before elements are packed.
DType unpacked_dtype(DType dtype) {
  switch (dtype) {
    case DType::kI4:
    case DType::kI2: return DType::kI8;
    case DType::kU4:
    case DType::kU2: return DType::kU8;
    case DType::kF4E2M1: return DType::kF32;
    default: return dtype;
  }
}

DType target_dtype(const KernelCall& call) {
  const int64_t to = call.node.int_or("to", 0);
  require(to > 0 && to <= kLastDType, "the target type {} is unknown", to);
  return static_cast<DType>(to);
}

CastOptions options_of(const Node& node) {
  return {.saturate = node.int_or("saturate", 1) != 0, .round_mode = node.string_or("round_mode", "up")};
}

Tensors cast_kernel(const KernelCall& call) { return {cast(call.input(0), target_dtype(call), options_of(call.node))}; }

Tensors cast_like(const KernelCall& call) { return {cast(call.input(0), call.input(1).dtype(), options_of(call.node))}; }

Tensors bit_cast(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const DType to = target_dtype(call);
  require(bits_per_element(to) == bits_per_element(x.dtype()) && bits_per_element(to) != 0, "the bits of {} cannot be read as {}",
          dtype_name(x.dtype()), dtype_name(to));
  Tensor result(to, x.dims());
  const std::span<std::byte> bytes = result.mutable_bytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = to == DType::kBool ? static_cast<std::byte>(x.bytes()[i] != std::byte{0}) : x.bytes()[i];
  }
  return {result};
}

}  // namespace

Tensor cast(const Tensor& tensor, DType to, const CastOptions& options) {
  if (tensor.dtype() == to) return tensor;
  require(to != DType::kString && tensor.dtype() != DType::kString, "strings cannot be cast");
  const Tensor from = widened(tensor);
  Tensor result = new_tensor(unpacked_dtype(to), tensor.dims());
  Numbers numbers;
  for (size_t begin = 0; begin < static_cast<size_t>(from.size()); begin += kChunk) {
    read_chunk(from, begin, numbers);
    write_chunk(numbers, result, begin, options);
  }
  return narrowed(result, to);
}

void add_cast(KernelTable& table) {
  table.add("BitCast", bit_cast);
  table.add("Cast", cast_kernel);
  table.add("CastLike", cast_like);
}

}  // namespace kvik::onnx
