#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace kvik::engine {

// Cache of encoded sources by their exact input, so that the same source is encoded once. Only for backends whose encoded sources do not
// depend on the batch (Traits::exact_sources). Any thread.
class SourceCache {
 public:
  // Limit for sources that nothing else refers to; the least recently used are dropped.
  static constexpr size_t kIdleBytes = size_t{64} << 20;

  // `inputs` as for Backend::encode(). If memory is short, idle sources are freed first.
  std::vector<std::shared_ptr<const backend::Source>> encode(backend::Backend& backend, std::span<const Tensor> inputs);
  bool free_idle();  // frees sources that nothing else refers to; false if there were none

 private:
  struct Known {
    uint64_t hash = 0;
    Tensor input;
    std::shared_ptr<const backend::Source> source;
  };
  std::shared_ptr<const backend::Source> find(uint64_t hash, const Tensor& input);
  void keep(Known known);

  std::mutex mutex_;
  std::list<Known> known_;  // most recently used first
};

}  // namespace kvik::engine
