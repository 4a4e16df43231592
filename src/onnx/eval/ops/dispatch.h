#pragma once

#include "onnx/eval/ops/common.h"

// From a DType to a C++ type: visit_numeric(dtype, [&]<class T>(Type<T>) { … tensor.data<T>() … }).
// Not for f16, bf16 and f8, since nothing is computed in them: see widened() in elements.h.
namespace kvik::onnx {

template <class T>
struct Type {};

[[noreturn]] inline void refuse_dtype(DType dtype) { refuse("this operator does not support tensors of type {}", dtype_name(dtype)); }

// f32 and f64.
template <class F>
decltype(auto) visit_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32: return f(Type<float>());
    case DType::kF64: return f(Type<double>());
    default: refuse_dtype(dtype);
  }
}

// The integer types of 8 to 64 bits.
template <class F>
decltype(auto) visit_integer(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kI8: return f(Type<int8_t>());
    case DType::kI16: return f(Type<int16_t>());
    case DType::kI32: return f(Type<int32_t>());
    case DType::kI64: return f(Type<int64_t>());
    case DType::kU8: return f(Type<uint8_t>());
    case DType::kU16: return f(Type<uint16_t>());
    case DType::kU32: return f(Type<uint32_t>());
    case DType::kU64: return f(Type<uint64_t>());
    default: refuse_dtype(dtype);
  }
}

// f32, f64 and the integers.
template <class F>
decltype(auto) visit_numeric(DType dtype, F&& f) {
  return dtype == DType::kF32 || dtype == DType::kF64 ? visit_float(dtype, f) : visit_integer(dtype, f);
}

}  // namespace kvik::onnx
