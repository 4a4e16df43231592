#include "kernels/cuda/lower_attention.h"

#include <algorithm>

#include "kernels/device/order.h"
#include "kvik/error.h"

namespace kvik::cuda {

using namespace device;

namespace {

// Rows that follow one another share the reading of keys. False if no kernel has such heads or such a rule.
bool lower_prompt(const Attend& step, LaunchList& list) {
  const AttendRule& rule = step.rule;
  const int dim = std::max(step.layout.key_dim, step.layout.value_dim);
  const bool is_plain =
      rule.n_roundings == 0 && rule.soft_cap == 0.0f && rule.slopes == Address::kNone && rule.distance_bias == Address::kNone;
  if (step.groups.most_rows < 2 || step.layout.planes != 1 || dim > 128 || !is_plain || step.q.by_position) return false;
  const Target& target = list.target();
  PromptLaunch launch{.step = step};
  launch.chunks_per_group = ceil_div(int64_t{step.groups.most_rows} * step.most_heads, kPromptQueries);
  launch.n_splits = step.parts.n_parts;
  const int kernel_dim = dim > 64 ? 128 : 64, n_blocks = 2 * target.n_units;
  list.add(kernel_dim == 128 ? "prompt_128" : "prompt_64", {n_blocks}, kPromptThreads, prompt_shared_bytes(kernel_dim), launch);
  return true;
}

}  // namespace

void lower_attention(const Attend& step, LaunchList& list) {
  if (lower_prompt(step, list)) return;
  const Target& target = list.target();
  const KvLayout& layout = step.layout;
  AttendLaunch launch{.step = step};
  const auto padded = [](int32_t dim) { return (dim + 15) / 16 * 16 + 8; };
  launch.key_stride = padded(layout.key_dim);
  launch.value_stride = padded(layout.value_dim);
  const int key_bytes = layout.planes * kSpanPositions * launch.key_stride * 2;
  const int value_bytes = layout.planes * kSpanPositions * launch.value_stride * 2;
  const int query_bytes = layout.planes * 16 * launch.key_stride * 2, score_bytes = 16 * kScoreStride * 4;
  const int rest = query_bytes + score_bytes + layout.planes * 16 * kWeightStride * 2;
  launch.keeps_both = key_bytes + value_bytes + rest <= target.shared_bytes;
  launch.values_at = launch.keeps_both ? key_bytes : 0;
  launch.queries_at = launch.keeps_both ? key_bytes + value_bytes : std::max(key_bytes, value_bytes);
  launch.scores_at = launch.queries_at + query_bytes;
  launch.weights_at = launch.scores_at + score_bytes;
  const int shared_bytes = launch.queries_at + rest;
  if (shared_bytes > target.shared_bytes) throw Error(Code::kInternal, "heads of an attention are too large for the device");
  const int blocks = std::min(step.groups.most, target.n_units * 8) * layout.n_heads;
  launch.n_splits = std::clamp(2 * target.n_units / std::max(1, blocks), 1, step.parts.n_parts);
  list.add(layout.planes == 2 ? "attend_2" : "attend_1", {std::min(step.groups.most, target.n_units * 8), layout.n_heads, launch.n_splits},
           kAttendThreads, shared_bytes, launch);
}

}  // namespace kvik::cuda
