#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/token.h"
#include "tensor/tensor.h"

// Saved caches: written completely or not at all, and verified by a checksum when read.
namespace kvik::kv {

// The state of a random number generator.
struct RandomState {
  uint64_t seed = 0;
  uint64_t position = 0;
};

struct SavedCache {
  std::string model;  // identity of the model
  std::string form;   // layout of the contents; see backend::Traits::cache_form
  std::vector<TokenId> tokens;
  std::vector<float> logits;  // of the last token; may be empty
  std::optional<RandomState> random;
  std::vector<Tensor> contents;
};

// Throws Error(kIo).
void write_cache(const std::filesystem::path& path, const SavedCache& cache);

// The contents are views of the mapped file, which must not change while they are in use. Throws Error(kIo) if the file cannot be read
// and Error(kBadArgument) if it is not a saved cache, damaged, or of another version.
SavedCache read_cache(const std::filesystem::path& path);

// The same for the bytes of a file without its checksum, on a 64-byte boundary and kept alive by `owner`; `name` begins every message.
SavedCache parse_cache(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string_view name);

}  // namespace kvik::kv
