#include "kv/cache_file.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/new_file.h"
#include "kvik/error.h"

// Layout: magic, header size; header (JSON); tokens, logits and contents, each on a 64-byte boundary; hash of everything before.
namespace kvik::kv {
namespace {

constexpr std::string_view kMagic = "kvik cache 1\n";
constexpr size_t kAlignment = 64;
constexpr size_t kPrefix = 16 + sizeof(uint64_t);  // the padded magic and the size of the header
constexpr size_t kHashBytes = sizeof(uint64_t);

size_t padding_after(size_t size_bytes) { return (kAlignment - size_bytes % kAlignment) % kAlignment; }

class Writer {
 public:
  explicit Writer(const std::filesystem::path& path) : file_(path) {}

  void write(std::span<const std::byte> bytes) {
    static constexpr std::byte kZeros[kAlignment] = {};
    put({kZeros, padding_after(n_written_)});
    put(bytes);
  }

  void put(std::span<const std::byte> bytes) {
    file_.write(bytes);
    hash_.add(bytes);
    n_written_ += bytes.size();
  }

  void commit() {
    const uint64_t hash = hash_.value();
    file_.write(std::as_bytes(std::span(&hash, 1)));
    file_.commit();
  }

 private:
  NewFile file_;
  Hash hash_;
  size_t n_written_ = 0;
};

[[noreturn]] void fail(std::string_view name, const std::string& why) { throw Error(Code::kBadArgument, fmt::format("{}: {}", name, why)); }

// Reads everything but the hash.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string_view name)
      : bytes_(bytes), owner_(std::move(owner)), name_(name) {}

  Json header() {
    char magic[16] = {};
    if (bytes_.size() >= sizeof magic) std::memcpy(magic, bytes_.data(), sizeof magic - 1);
    if (std::string_view(magic) != kMagic) fail("this is not a cache saved by this version of Kvik");
    if (bytes_.size() < kPrefix) fail("the file is truncated inside its header");
    uint64_t size_bytes = 0;
    std::memcpy(&size_bytes, bytes_.data() + kPrefix - sizeof size_bytes, sizeof size_bytes);
    if (size_bytes > bytes_.size() - kPrefix) fail("the header is longer than the file");
    at_ = kPrefix + static_cast<size_t>(size_bytes);
    return parse_json({reinterpret_cast<const char*>(bytes_.data()) + kPrefix, static_cast<size_t>(size_bytes)}, name_);
  }

  Tensor tensor(int64_t type, Dims dims) {
    const std::optional<int64_t> n_elements = checked_elements(dims);
    const auto dtype = type >= 1 && type <= kLastDType ? static_cast<DType>(type) : DType::kUndefined;
    if (!n_elements || bits_per_element(dtype) == 0) fail(fmt::format("invalid tensor of shape {} and type {}", to_string(dims), type));
    at_ += padding_after(at_);
    const size_t size_bytes = storage_bytes(dtype, *n_elements);
    if (at_ > bytes_.size() || size_bytes > bytes_.size() - at_) fail("the contents are shorter than the header states");
    at_ += size_bytes;
    return Tensor::view(dtype, std::move(dims), bytes_.data() + at_ - size_bytes, owner_);
  }

  // A JSON number may be anything; one that does not fit is refused, not truncated.
  int64_t integer(const Json& number) const {
    if (!number.is_number_integer()) fail(fmt::format("the header has {} instead of an integer", number.dump()));
    return number.get<int64_t>();
  }
  uint64_t unsigned_integer(const Json& number) const {
    if (!number.is_number_unsigned()) fail(fmt::format("the header has {} instead of an unsigned integer", number.dump()));
    return number.get<uint64_t>();
  }
  Dims dims(const Json& list) const {
    Dims dims;
    for (const Json& dim : list) dims.push_back(integer(dim));
    return dims;
  }

  [[noreturn]] void fail(const std::string& why) const { kv::fail(name_, why); }

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::string_view name_;
  size_t at_ = 0;
};

Json header_of(const SavedCache& cache) {
  Json header = {{"model", cache.model}, {"form", cache.form}, {"tokens", cache.tokens.size()}, {"logits", cache.logits.size()}};
  if (cache.random) header["random"] = {cache.random->seed, cache.random->position};
  Json contents = Json::array();
  for (const Tensor& tensor : cache.contents) contents.push_back({static_cast<int>(tensor.dtype()), tensor.dims()});
  header["contents"] = std::move(contents);
  return header;
}

}  // namespace

void write_cache(const std::filesystem::path& path, const SavedCache& cache) {
  const std::string header = header_of(cache).dump(-1, ' ', false, Json::error_handler_t::replace);
  Writer writer(path);
  char prefix[kPrefix] = {};
  const uint64_t header_bytes = header.size();
  std::memcpy(prefix, kMagic.data(), kMagic.size());
  std::memcpy(prefix + kPrefix - sizeof header_bytes, &header_bytes, sizeof header_bytes);
  writer.put(std::as_bytes(std::span(prefix)));
  writer.put(std::as_bytes(std::span(header)));
  writer.write(std::as_bytes(std::span(cache.tokens)));
  writer.write(std::as_bytes(std::span(cache.logits)));
  for (const Tensor& tensor : cache.contents) writer.write(tensor.bytes());
  writer.commit();
}

SavedCache parse_cache(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string_view name) {
  Reader reader(bytes, std::move(owner), name);
  SavedCache cache;
  try {
    const Json header = reader.header();
    header.at("model").get_to(cache.model);
    header.at("form").get_to(cache.form);
    if (header.contains("random"))
      cache.random = {reader.unsigned_integer(header.at("random").at(0)), reader.unsigned_integer(header.at("random").at(1))};
    const Tensor tokens = reader.tensor(static_cast<int64_t>(DType::kI32), {reader.integer(header.at("tokens"))});
    const Tensor logits = reader.tensor(static_cast<int64_t>(DType::kF32), {reader.integer(header.at("logits"))});
    cache.tokens.assign(tokens.data<int32_t>().begin(), tokens.data<int32_t>().end());
    cache.logits.assign(logits.data<float>().begin(), logits.data<float>().end());
    for (const Json& entry : header.at("contents"))
      cache.contents.push_back(reader.tensor(reader.integer(entry.at(0)), reader.dims(entry.at(1))));
  } catch (const Json::exception& e) { reader.fail(fmt::format("the header is invalid ({})", e.what())); }
  return cache;
}

SavedCache read_cache(const std::filesystem::path& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  const size_t n_hashed = bytes.size() - std::min(bytes.size(), kHashBytes);
  Hash hash;
  hash.add(bytes.first(n_hashed));
  const uint64_t found = hash.value();
  const bool intact = bytes.size() > kHashBytes && std::memcmp(&found, bytes.data() + n_hashed, kHashBytes) == 0;
  if (!intact && bytes.size() > kMagic.size() && file->text().starts_with(kMagic))
    fail(path.string(), "the checksum does not match; the file is damaged or truncated");
  return parse_cache(bytes.first(n_hashed), file, path.string());
}

}  // namespace kvik::kv
