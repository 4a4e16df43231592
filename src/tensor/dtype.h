#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvik {

// The values are those of ONNX's TensorProto.DataType.
enum class DType : uint8_t {
  kUndefined = 0,
  kF32 = 1,
  kU8 = 2,
  kI8 = 3,
  kU16 = 4,
  kI16 = 5,
  kI32 = 6,
  kI64 = 7,
  kString = 8,
  kBool = 9,
  kF16 = 10,
  kF64 = 11,
  kU32 = 12,
  kU64 = 13,
  kC64 = 14,
  kC128 = 15,
  kBF16 = 16,
  kF8E4M3FN = 17,
  kF8E4M3FNUZ = 18,
  kF8E5M2 = 19,
  kF8E5M2FNUZ = 20,
  kU4 = 21,
  kI4 = 22,
  kF4E2M1 = 23,
  kF8E8M0 = 24,
  kU2 = 25,
  kI2 = 26,
};
inline constexpr int kLastDType = 26;

// "f32", "i64", "f8e4m3fn" …; "undefined" for kUndefined.
std::string_view dtype_name(DType dtype);

// Bits of one element in memory; 4- and 2-bit types are packed, lowest bits first. 0 for strings and kUndefined.
int bits_per_element(DType dtype);

// Bytes of `n_elements`, rounded up to whole bytes. The caller has checked that n_elements * bits fits (see checked_elements).
size_t storage_bytes(DType dtype, int64_t n_elements);

bool is_float(DType dtype);    // every floating point type, 4 to 64 bits
bool is_integer(DType dtype);  // signed and unsigned, 2 to 64 bits; not bool

}  // namespace kvik
