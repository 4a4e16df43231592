#include "tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvik/error.h"

namespace kvik {

std::optional<int64_t> checked_elements(std::span<const int64_t> dims) {
  constexpr int64_t kLimit = int64_t{1} << 56;
  int64_t n = 1;
  bool empty = false;
  for (const int64_t dim : dims) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (n > kLimit / dim) return std::nullopt;
    n *= dim;
  }
  return empty ? 0 : n;
}

int64_t element_count(std::span<const int64_t> dims) {
  const std::optional<int64_t> n = checked_elements(dims);
  if (!n)
    throw Error(Code::kTooLarge,
                fmt::format("invalid tensor shape {}: a dimension is negative or the number of elements overflows", to_string(dims)));
  return *n;
}

Dims strides_of(std::span<const int64_t> dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

std::string to_string(std::span<const int64_t> dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

}  // namespace kvik
