#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/token.h"
#include "tensor/tensor.h"

// A cache in a file: written whole or not at all, and read only where every byte is as it was written.
namespace kvik::kv {

// Where a generator of random numbers stands.
struct RandomState {
  uint64_t seed = 0;
  uint64_t position = 0;
};

struct SavedCache {
  std::string model;  // what it belongs to
  std::string form;   // how its contents are to be understood
  std::vector<TokenId> tokens;
  std::vector<float> logits;  // of the last token; may be empty
  std::optional<RandomState> random;
  std::vector<Tensor> contents;
};

// Throws Error(kIo).
void write_cache(const std::filesystem::path& path, const SavedCache& cache);

// The contents are views of the file, which must not change while they are in use. Throws Error(kIo) for a file that cannot be read and
// Error(kBadArgument) for one that is no cache, damaged, or of another version.
SavedCache read_cache(const std::filesystem::path& path);

// The same for the bytes of a file without its checksum, on a 64-byte boundary and kept alive by `owner`; `name` stands in errors.
SavedCache parse_cache(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string_view name);

}  // namespace kvik::kv
