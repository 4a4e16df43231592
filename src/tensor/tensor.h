#pragma once

#include <complex>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/small_float.h"

namespace kvik {

// The C++ type that stores one element of a DType, for types of at least eight bits.
template <class T>
inline constexpr DType kDTypeOf = DType::kUndefined;
template <>
inline constexpr DType kDTypeOf<float> = DType::kF32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kF64;
template <>
inline constexpr DType kDTypeOf<Half> = DType::kF16;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::kBF16;
template <>
inline constexpr DType kDTypeOf<Float8E4M3FN> = DType::kF8E4M3FN;
template <>
inline constexpr DType kDTypeOf<Float8E4M3FNUZ> = DType::kF8E4M3FNUZ;
template <>
inline constexpr DType kDTypeOf<Float8E5M2> = DType::kF8E5M2;
template <>
inline constexpr DType kDTypeOf<Float8E5M2FNUZ> = DType::kF8E5M2FNUZ;
template <>
inline constexpr DType kDTypeOf<Float8E8M0> = DType::kF8E8M0;
template <>
inline constexpr DType kDTypeOf<int8_t> = DType::kI8;
template <>
inline constexpr DType kDTypeOf<int16_t> = DType::kI16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kI32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kI64;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::kU8;
template <>
inline constexpr DType kDTypeOf<uint16_t> = DType::kU16;
template <>
inline constexpr DType kDTypeOf<uint32_t> = DType::kU32;
template <>
inline constexpr DType kDTypeOf<uint64_t> = DType::kU64;
template <>
inline constexpr DType kDTypeOf<bool> = DType::kBool;
template <>
inline constexpr DType kDTypeOf<std::complex<float>> = DType::kC64;
template <>
inline constexpr DType kDTypeOf<std::complex<double>> = DType::kC128;
template <>
inline constexpr DType kDTypeOf<std::string> = DType::kString;

// A dense row-major array. Copies share the elements (copy-on-write): mutable_data() copies shared elements first. A default-constructed
// tensor is undefined and stands for an omitted optional input.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Dims dims);  // zeros (empty strings); throws Error(kTooLarge) for an invalid shape or if there is not enough memory

  template <class T>
  static Tensor of(Dims dims, std::span<const T> values);
  template <class T>
  static Tensor of(Dims dims, std::initializer_list<T> values) {
    return of(std::move(dims), std::span<const T>(values.begin(), values.size()));
  }
  template <class T>
  static Tensor of(Dims dims, const std::vector<T>& values) {
    return of(std::move(dims), std::span<const T>(values));
  }
  template <class T>
  static Tensor scalar(T value) {
    return of<T>({}, std::span<const T>(&value, 1));
  }

  // A view of elements that `owner` keeps alive. `data` must be aligned for the element type and hold
  // storage_bytes(dtype, n) bytes. Not for strings.
  static Tensor view(DType dtype, Dims dims, const std::byte* data, std::shared_ptr<const void> owner);

  bool defined() const { return dtype_ != DType::kUndefined; }
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int axis) const { return dims_[static_cast<size_t>(axis < 0 ? axis + rank() : axis)]; }
  int64_t size() const { return n_elements_; }
  size_t size_bytes() const { return storage_bytes(dtype_, n_elements_); }

  // The elements; throws Error(kBadModel) if the tensor has another type.
  template <class T>
  std::span<const T> data() const;
  template <class T>
  std::span<T> mutable_data();

  // The stored bytes, packed for types under eight bits. Not for strings.
  std::span<const std::byte> bytes() const { return {data_, size_bytes()}; }
  std::span<std::byte> mutable_bytes();

  // The same elements with another shape of the same size.
  Tensor reshaped(Dims dims) const;

 private:
  void require(DType wanted) const;
  void make_unique();

  DType dtype_ = DType::kUndefined;
  Dims dims_;
  int64_t n_elements_ = 0;
  const std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;                  // of data_
  bool owned_ = false;                                 // data_ is this tensor's allocation, writable while owner_ is not shared
  std::shared_ptr<std::vector<std::string>> strings_;  // instead of data_ for strings
};

template <class T>
std::span<const T> Tensor::data() const {
  require(kDTypeOf<T>);
  if constexpr (std::is_same_v<T, std::string>) {
    return *strings_;
  } else {
    return {reinterpret_cast<const T*>(data_), static_cast<size_t>(n_elements_)};
  }
}

template <class T>
std::span<T> Tensor::mutable_data() {
  require(kDTypeOf<T>);
  make_unique();
  if constexpr (std::is_same_v<T, std::string>) {
    return *strings_;
  } else {
    return {reinterpret_cast<T*>(const_cast<std::byte*>(data_)), static_cast<size_t>(n_elements_)};
  }
}

template <class T>
Tensor Tensor::of(Dims dims, std::span<const T> values) {
  Tensor result(kDTypeOf<T>, std::move(dims));
  const std::span<T> target = result.mutable_data<T>();
  for (size_t i = 0; i < target.size() && i < values.size(); ++i) target[i] = values[i];
  return result;
}

}  // namespace kvik
