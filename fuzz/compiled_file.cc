#include "backend/native/compiled_file.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/hash.h"
#include "kvik/error.h"

// Any bytes are an index whose weights are inside the file, or one sentence says why not. The checksum and the size of the file are made to
// fit first, since an attacker can compute these too.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kFileBytes = 24, kHash = 40, kHeader = 64;  // offsets
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  const uint64_t file_bytes = size + 4096;
  if (size >= kHeader) {
    uint64_t index_bytes = 0, none = 0;
    std::memcpy(&index_bytes, bytes.data() + 32, sizeof index_bytes);
    std::memcpy(bytes.data() + kFileBytes, &file_bytes, sizeof file_bytes);
    std::memcpy(bytes.data() + kHash, &none, sizeof none);
    if (index_bytes <= size - kHeader) {
      kvik::Hash hash;
      hash.add(std::span(bytes).first(kHeader + index_bytes));
      const uint64_t value = hash.value();
      std::memcpy(bytes.data() + kHash, &value, sizeof value);
    }
  }
  try {
    const kvik::native::CompiledIndex index = kvik::native::parse_compiled(bytes, file_bytes, "a file");
    for (const auto& of_plan : index.weights) {
      for (const kvik::native::SavedWeight& weight : of_plan) {
        if (weight.size_bytes > file_bytes || weight.offset > file_bytes - weight.size_bytes) __builtin_trap();
      }
    }
  } catch (const kvik::Error&) {}
  return 0;
}
