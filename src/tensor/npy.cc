#include "tensor/npy.h"

#include <charconv>
#include <cstring>
#include <fmt/format.h>

#include "base/mapped_file.h"
#include "kvik/error.h"

namespace kvik {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw Error(Code::kBadArgument, fmt::format("{}: {}", name, what));
}

// The value of a key in the header, a Python dictionary: up to the character that ends it.
std::string_view value_of(std::string_view header, std::string_view key, char end, const std::string& name) {
  const size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) refuse(name, fmt::format("the array's header has no '{}'", key));
  std::string_view value = header.substr(at + key.size() + 3);
  value = value.substr(0, value.find(end));
  const size_t first = value.find_first_not_of(' ');
  return first == std::string_view::npos ? std::string_view() : value.substr(first);
}

DType dtype_of(std::string_view description, const std::string& name) {
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"'<f4'", DType::kF32}, {"'<f8'", DType::kF64}, {"'<f2'", DType::kF16}, {"'<i8'", DType::kI64}, {"'<i4'", DType::kI32}};
  for (const auto& [text, dtype] : kTypes) {
    if (description == text) return dtype;
  }
  throw Error(Code::kUnsupported,
              fmt::format("{}: the elements have type {}; expected little-endian f2, f4, f8, i4 or i8", name, description.substr(0, 20)));
}

Dims dims_of(std::string_view text, const std::string& name) {
  Dims dims;
  if (text.empty() || text.front() != '(') refuse(name, "the array's header has no shape");
  for (const char* at = text.data() + 1; at < text.data() + text.size();) {
    if (*at == ' ' || *at == ',' || *at == 'L') {
      ++at;
      continue;
    }
    int64_t dim = 0;
    const auto [next, fault] = std::from_chars(at, text.data() + text.size(), dim);
    if (fault != std::errc() || dim < 0) refuse(name, "the array's shape has an entry that is not a number");
    dims.push_back(dim);
    at = next;
  }
  return dims;
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return read_npy(file->bytes(), path.string());
}

Tensor read_npy(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < 12 || !text.starts_with(kMagic)) refuse(name, "this is not a NumPy array file (.npy)");
  const bool is_first_version = text[6] == 1;
  const size_t length_bytes = is_first_version ? 2 : 4;
  size_t header_bytes = 0;
  for (size_t i = 0; i < length_bytes; ++i) header_bytes |= std::to_integer<size_t>(bytes[8 + i]) << (8 * i);
  const size_t begin = 8 + length_bytes;
  if (header_bytes > bytes.size() - begin) refuse(name, "the file is truncated inside its header");
  const std::string_view header = text.substr(begin, header_bytes);
  const DType dtype = dtype_of(value_of(header, "descr", ',', name), name);
  const Dims dims = dims_of(value_of(header, "shape", ')', name), name);
  if (dims.size() > 1 && value_of(header, "fortran_order", ',', name) != "False")
    throw Error(Code::kUnsupported, fmt::format("{}: it is stored in Fortran order; save it with numpy.ascontiguousarray", name));
  const auto n_elements = checked_elements(dims);
  const size_t left = bytes.size() - begin - header_bytes;
  if (!n_elements || storage_bytes(dtype, *n_elements) != left)
    refuse(name, fmt::format("{} bytes follow the header; a shape of {} needs another number", left, to_string(dims)));
  Tensor tensor(dtype, dims);
  if (left > 0) std::memcpy(tensor.mutable_bytes().data(), bytes.data() + begin + header_bytes, left);
  return tensor;
}

}  // namespace kvik
