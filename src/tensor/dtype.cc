#include "tensor/dtype.h"

#include <array>

namespace kvik {
namespace {

enum class Class : uint8_t { kOther, kFloat, kInteger };

struct Row {
  std::string_view name;
  int bits;
  Class kind;
};

constexpr std::array<Row, kLastDType + 1> kRows = {{
    {"undefined", 0, Class::kOther},  {"f32", 32, Class::kFloat},     {"u8", 8, Class::kInteger},       {"i8", 8, Class::kInteger},
    {"u16", 16, Class::kInteger},     {"i16", 16, Class::kInteger},   {"i32", 32, Class::kInteger},     {"i64", 64, Class::kInteger},
    {"string", 0, Class::kOther},     {"bool", 8, Class::kOther},     {"f16", 16, Class::kFloat},       {"f64", 64, Class::kFloat},
    {"u32", 32, Class::kInteger},     {"u64", 64, Class::kInteger},   {"c64", 64, Class::kOther},       {"c128", 128, Class::kOther},
    {"bf16", 16, Class::kFloat},      {"f8e4m3fn", 8, Class::kFloat}, {"f8e4m3fnuz", 8, Class::kFloat}, {"f8e5m2", 8, Class::kFloat},
    {"f8e5m2fnuz", 8, Class::kFloat}, {"u4", 4, Class::kInteger},     {"i4", 4, Class::kInteger},       {"f4e2m1", 4, Class::kFloat},
    {"f8e8m0", 8, Class::kFloat},     {"u2", 2, Class::kInteger},     {"i2", 2, Class::kInteger},
}};

const Row& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view dtype_name(DType dtype) { return row(dtype).name; }
int bits_per_element(DType dtype) { return row(dtype).bits; }
bool is_float(DType dtype) { return row(dtype).kind == Class::kFloat; }
bool is_integer(DType dtype) { return row(dtype).kind == Class::kInteger; }

size_t storage_bytes(DType dtype, int64_t n_elements) {
  const auto bits = static_cast<size_t>(bits_per_element(dtype));
  const auto n = static_cast<size_t>(n_elements);
  return bits >= 8 ? n * (bits / 8) : (n * bits + 7) / 8;
}

}  // namespace kvik
