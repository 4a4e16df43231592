#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/native/execute/execute.h"
#include "kv/pages.h"
#include "tensor/tensor.h"

namespace kvik::native {

inline constexpr int64_t kMostRows = 512;  // of texts that go through an encoder together

// Pages of this size in the memory of a runner.
std::shared_ptr<kv::PageStore> page_store(const Runner& runner, size_t page_bytes, std::shared_ptr<kv::Budget> budget);

// Runs whole texts through a plan that outputs hidden states: an encoder, or a decoder whose cache is not kept. Used by one thread at a
// time.
class HiddenStates {
 public:
  HiddenStates(std::unique_ptr<Runner> runner, std::shared_ptr<kv::Budget> budget);

  const Runner& runner() const { return *runner_; }

  // [1, E, size] (f32) for each text of token ids [E] (i64).
  std::vector<Tensor> run(std::span<const Tensor> inputs);

 private:
  std::unique_ptr<Runner> runner_;
  std::shared_ptr<kv::PageStore> store_;
  std::vector<int64_t> register_bytes_;
  bool is_causal_ = false;
};

}  // namespace kvik::native
