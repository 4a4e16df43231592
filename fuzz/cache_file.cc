#include "kv/cache_file.h"

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "kvik/error.h"

// Any bytes with a valid checksum are a cache, or an Error says why not.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto copy = std::make_shared<kvik::AlignedBuffer>(size);
  std::copy(data, data + size, reinterpret_cast<uint8_t*>(copy->data()));
  try {
    const kvik::kv::SavedCache cache = kvik::kv::parse_cache(copy->bytes(), copy, "a cache");
    uint64_t sum = 0;
    for (const kvik::Tensor& tensor : cache.contents) {
      for (const std::byte byte : tensor.bytes()) sum += static_cast<uint64_t>(byte);
    }
    return sum == ~uint64_t{0} ? 1 : 0;
  } catch (const kvik::Error&) { return 0; }
}
