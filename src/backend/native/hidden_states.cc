#include "backend/native/hidden_states.h"

#include <algorithm>
#include <numeric>

#include "backend/native/native_cache.h"
#include "backend/native/place/place.h"
#include "kvik/error.h"

namespace kvik::native {

std::shared_ptr<kv::PageStore> page_store(const Runner& runner, size_t page_bytes, std::shared_ptr<kv::Budget> budget) {
  return std::make_shared<kv::PageStore>(kv::PageShape{page_bytes, kPagePositions}, std::move(budget), runner.memory());
}

HiddenStates::HiddenStates(std::unique_ptr<Runner> runner, std::shared_ptr<kv::Budget> budget)
    : runner_(std::move(runner)), store_(page_store(*runner_, runner_->cache_bytes().page, std::move(budget))) {
  for (const Plan::PlanRegister& r : runner_->plan().registers) register_bytes_.push_back(r.size * element_bytes(r.dtype));
  is_causal_ = std::ranges::all_of(runner_->plan().attends, [](const AttentionSpec& attend) { return attend.causal; });
}

std::vector<Tensor> HiddenStates::run(std::span<const Tensor> inputs) {
  const int64_t switch_after = runner_->plan().switch_after;
  std::vector<std::unique_ptr<kv::PageTable>> pages;
  std::vector<backend::Registers> registers;
  std::vector<RunSequence> sequences;
  std::vector<RunRow> rows;
  std::vector<int64_t> tokens;
  for (size_t s = 0; s < inputs.size(); ++s) {
    if (inputs[s].dtype() != DType::kI64 || inputs[s].rank() != 1)
      throw Error(Code::kBadArgument, "the encoder reads token ids; something else was given");
    const std::span<const int64_t> ids = inputs[s].data<int64_t>();
    pages.push_back(std::make_unique<kv::PageTable>(*store_));
    pages.back()->prepare(inputs[s].size());
    registers.emplace_back(store_->memory(), register_bytes_);
    sequences.emplace_back();
    sequences.back().pages = pages.back()->panels();
    sequences.back().n_keys = inputs[s].size();
    sequences.back().registers = registers.back().addresses();
    const bool beyond = switch_after > 0 && inputs[s].size() > switch_after;
    for (size_t i = 0; i < ids.size(); ++i) rows.push_back({static_cast<int64_t>(i), static_cast<int32_t>(s), beyond});
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  }
  const auto size = static_cast<size_t>(runner_->output_size());
  std::vector<float> hidden(rows.size() * size);
  // Rows that see no later row need not run with them: memory does not grow with the length of a text.
  const size_t chunk = is_causal_ ? static_cast<size_t>(kMostRows) : std::max<size_t>(1, rows.size());
  std::vector<int32_t> wanted;
  for (size_t from = 0; from < rows.size(); from += chunk) {
    const size_t n = std::min(chunk, rows.size() - from);
    const std::span<const RunRow> part = std::span(rows).subspan(from, n);
    wanted.resize(n);
    std::iota(wanted.begin(), wanted.end(), 0);
    runner_->prepare(part);
    runner_->run({part, sequences, std::span(tokens).subspan(from, n), {}, wanted, hidden.data() + from * size});
  }
  std::vector<Tensor> outputs;
  auto from = hidden.begin();
  for (const Tensor& input : inputs) {
    outputs.emplace_back(DType::kF32, Dims{1, input.size(), runner_->output_size()});
    const auto n = static_cast<ptrdiff_t>(outputs.back().size());
    std::copy(from, from + n, outputs.back().mutable_data<float>().begin());
    from += n;
  }
  return outputs;
}

}  // namespace kvik::native
