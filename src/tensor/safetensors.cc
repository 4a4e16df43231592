#include "tensor/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>

#include "base/json.h"
#include "base/mapped_file.h"
#include "kvik/error.h"

namespace kvik {
namespace {

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // as the format's own implementation allows

DType dtype_of(const std::string& word, const std::string& origin, const std::string& name) {
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"F32", DType::kF32}, {"F64", DType::kF64}, {"F16", DType::kF16}, {"BF16", DType::kBF16}};
  for (const auto& [text, dtype] : kTypes) {
    if (word == text) return dtype;
  }
  throw Error(Code::kUnsupported, fmt::format("{}: '{}' has the type {}; F64, F32, F16 or BF16 was expected", origin, name, word));
}

}  // namespace

Tensor read_safetensor(const std::filesystem::path& path, const std::string& name) {
  return read_safetensor(MappedFile::open(path)->bytes(), name, path.string());
}

// Eight bytes with the size of the header, the header as JSON, then the elements.
Tensor read_safetensor(std::span<const std::byte> bytes, const std::string& name, const std::string& origin) {
  const auto damaged = [&](const std::string& what) { return Error(Code::kBadModel, fmt::format("{}: {}", origin, what)); };
  static_assert(std::endian::native == std::endian::little);
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes) throw damaged("too short for a .safetensors file");
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  bytes = bytes.subspan(sizeof header_bytes);
  if (header_bytes > std::min<uint64_t>(bytes.size(), kMostHeaderBytes))
    throw damaged(fmt::format("its header should have {} bytes, and the file has {}", header_bytes, bytes.size()));
  const Json header = parse_json({reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(header_bytes)}, origin);
  bytes = bytes.subspan(static_cast<size_t>(header_bytes));
  if (!header.is_object()) throw damaged("its header is not an object");
  const auto entry = header.find(name);
  if (entry == header.end()) return {};
  try {
    const DType dtype = dtype_of(entry->at("dtype").get<std::string>(), origin, name);
    const auto dims = entry->at("shape").get<Dims>();
    const auto offsets = entry->at("data_offsets").get<std::vector<uint64_t>>();
    const std::optional<int64_t> n = checked_elements(dims);
    if (!n || offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > bytes.size() ||
        offsets[1] - offsets[0] != storage_bytes(dtype, *n))
      throw damaged(fmt::format("the data of '{}' does not match its shape or the file", name));
    Tensor tensor(dtype, dims);
    const std::span<const std::byte> place = bytes.subspan(static_cast<size_t>(offsets[0]), tensor.size_bytes());
    std::copy(place.begin(), place.end(), tensor.mutable_bytes().begin());
    return tensor;
  } catch (const Json::exception&) { throw damaged(fmt::format("'{}' has no dtype, shape or data_offsets", name)); }
}

}  // namespace kvik
