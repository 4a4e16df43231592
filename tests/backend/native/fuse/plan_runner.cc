#include "plan_runner.h"

#include <algorithm>
#include <cmath>

#include "backend/native/execute/cpu/cpu_runner.h"

namespace kvik::native::testing_support {
namespace {

constexpr int64_t kPositions = 11, kSourcePositions = 7;

float smooth_noise(int64_t seed) { return static_cast<float>(std::sin(static_cast<double>(seed) * 12.9898) * 0.7); }

// Memory of one sequence.
struct Pages {
  explicit Pages(size_t page_bytes) : memory(page_bytes), list{memory.data()} {
    std::fill_n(memory.data(), memory.size_bytes(), std::byte{0});
  }
  AlignedBuffer memory;
  std::vector<std::byte*> list;
};

}  // namespace

float given(int64_t position, int64_t element) { return smooth_noise(position * 977 + element); }

std::vector<float> outputs(const std::shared_ptr<const Plan>& plan) {
  static_assert(kPositions <= native::kPagePositions);
  ThreadPool pool(1);
  CpuRunner runner({plan, load_weights(*plan, WeightChoice::kAsStored, pool, {}), cpu::KvFormat::kF32, &cpu::fastest(), &pool});
  Pages pages(runner.cache_bytes().page), source_pages(runner.cache_bytes().source_page);
  std::vector<std::vector<float>> features;
  for (const Plan::SourceValue& port : plan->source_inputs) {
    features.emplace_back(static_cast<size_t>(kSourcePositions * plan->value(port.value).size));
    for (size_t i = 0; i < features.back().size(); ++i) features.back()[i] = smooth_noise(static_cast<int64_t>(i));
  }
  const std::vector<std::span<const float>> inputs(features.begin(), features.end());
  RunSequence source;
  source.source_pages = source_pages.list.data();
  source.n_source = kSourcePositions;
  std::vector<RunRow> positions;
  for (int64_t i = 0; i < kSourcePositions; ++i) positions.push_back({i, 0});
  runner.prepare_source(positions);
  if (!inputs.empty()) runner.run_source(positions, {&source, 1}, inputs);

  std::vector<std::vector<std::byte>> memories;
  std::vector<std::byte*> registers;
  for (const Plan::PlanRegister& r : plan->registers) memories.emplace_back(static_cast<size_t>(r.size * 8));
  for (std::vector<std::byte>& memory : memories) registers.push_back(memory.data());
  const auto size = static_cast<size_t>(runner.output_size());
  const size_t width = plan->embedding == kNoIndex ? 0 : static_cast<size_t>(plan->value(plan->embedding).size);
  std::vector<float> all(size * kPositions);
  const bool at_once =
      std::any_of(plan->attends.begin(), plan->attends.end(), [](const AttentionSpec& a) { return !a.causal && !a.from_source; });
  for (int64_t first = 0, n = at_once ? kPositions : 6; first < kPositions; first += n, n = 1) {
    std::vector<RunRow> rows;
    std::vector<int64_t> tokens;
    std::vector<float> embeddings;
    std::vector<int32_t> wanted;
    for (int64_t i = 0; i < n; ++i) {
      rows.push_back({first + i, 0});
      tokens.push_back((first + i) * 5 % 23 + 3);
      wanted.push_back(static_cast<int32_t>(i));
      for (size_t e = 0; e < width; ++e) embeddings.push_back(given(first + i, static_cast<int64_t>(e)));
    }
    const RunSequence sequence{pages.list.data(), first + n, source_pages.list.data(), kSourcePositions, registers.data()};
    runner.prepare(rows);
    runner.run({rows, {&sequence, 1}, tokens, embeddings, wanted, all.data() + static_cast<size_t>(first) * size});
  }
  return all;
}

}  // namespace kvik::native::testing_support
