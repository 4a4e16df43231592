#define XXH_INLINE_ALL  // header-only
#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace kvik {

struct Hash::State {
  XXH3_state_t xxh;
};

Hash::Hash() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hash::Hash(Hash&&) noexcept = default;
Hash& Hash::operator=(Hash&&) noexcept = default;
Hash::~Hash() = default;

void Hash::add(std::span<const std::byte> bytes) { XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size()); }

void Hash::add(std::string_view text) {
  add(static_cast<int64_t>(text.size()));
  add(std::as_bytes(std::span(text)));
}

void Hash::add(int64_t number) { add(std::as_bytes(std::span(&number, 1))); }

uint64_t Hash::value() const { return XXH3_128bits_digest(&state_->xxh).low64; }

std::string Hash::hex() const {
  const XXH128_hash_t digest = XXH3_128bits_digest(&state_->xxh);
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

}  // namespace kvik
