#include "engine/source_cache.h"

#include <algorithm>

#include "base/hash.h"
#include "kvik/error.h"

namespace kvik::engine {
namespace {

uint64_t hash_of(const Tensor& input) {
  Hash hash;
  hash.add(std::as_bytes(std::span(input.dims())));
  hash.add(input.bytes());
  return hash.value();
}

bool is_same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && std::ranges::equal(a.dims(), b.dims()) && std::ranges::equal(a.bytes(), b.bytes());
}

}  // namespace

std::vector<std::shared_ptr<const backend::Source>> SourceCache::encode(backend::Backend& backend, std::span<const Tensor> inputs) {
  if (!backend.traits().exact_sources) return backend.encode(inputs);
  std::vector<std::shared_ptr<const backend::Source>> sources(inputs.size());
  std::vector<uint64_t> hashes(inputs.size());
  std::vector<size_t> same_as(inputs.size());  // an earlier input of this call, or itself
  std::vector<Tensor> unknown;
  std::vector<size_t> places;
  for (size_t i = 0; i < inputs.size(); ++i) {
    hashes[i] = hash_of(inputs[i]);
    same_as[i] = i;
    sources[i] = find(hashes[i], inputs[i]);
    if (sources[i] != nullptr) continue;
    const auto earlier = std::ranges::find_if(places, [&](size_t p) { return hashes[p] == hashes[i] && is_same(inputs[p], inputs[i]); });
    if (earlier != places.end()) {
      same_as[i] = *earlier;
      continue;
    }
    unknown.push_back(inputs[i]);
    places.push_back(i);
  }
  std::vector<std::shared_ptr<const backend::Source>> encoded;
  try {
    encoded = backend.encode(unknown);
  } catch (const Error& e) {
    if (e.code() != Code::kTooLarge || !free_idle()) throw;
    encoded = backend.encode(unknown);
  }
  for (size_t i = 0; i < places.size(); ++i) {
    sources[places[i]] = encoded[i];
    keep({hashes[places[i]], unknown[i], encoded[i]});
  }
  for (size_t i = 0; i < sources.size(); ++i) sources[i] = sources[same_as[i]];
  return sources;
}

bool SourceCache::free_idle() {
  const std::lock_guard lock(mutex_);
  return std::erase_if(known_, [](const Known& known) { return known.source.use_count() == 1; }) > 0;
}

std::shared_ptr<const backend::Source> SourceCache::find(uint64_t hash, const Tensor& input) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(known_, [&](const Known& known) { return known.hash == hash && is_same(known.input, input); });
  if (found == known_.end()) return nullptr;
  known_.splice(known_.begin(), known_, found);
  return found->source;
}

void SourceCache::keep(Known known) {
  const std::lock_guard lock(mutex_);
  known_.push_front(std::move(known));
  size_t idle_bytes = 0;
  for (auto it = known_.begin(); it != known_.end();) {
    if (it->source.use_count() == 1) idle_bytes += it->source->size_bytes() + it->input.size_bytes();
    it = idle_bytes > kIdleBytes ? known_.erase(it) : std::next(it);
  }
}

}  // namespace kvik::engine
