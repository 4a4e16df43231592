#include "kernels/cuda/rotaries.h"

#include <algorithm>

#include "kernels/cuda/row_uses.h"

namespace kvik::cuda {

using namespace device;

RotaryOf source_of(const View& view, int64_t n_heads, const Rotary& rotary) {
  const int64_t offset = static_cast<int64_t>(view.base) - static_cast<int64_t>(rotary.out.base), head_bytes = rotary.head_dim * 4;
  const bool inside =
      view.stride == rotary.out.stride && offset >= 0 && offset % head_bytes == 0 && offset / head_bytes + n_heads <= rotary.n_heads;
  if (!inside || view.by_position || rotary.x.by_position || rotary.out.by_position) return {};
  View x = rotary.x;
  x.base = Address{static_cast<uint64_t>(x.base) + static_cast<uint64_t>(offset)};
  return {
      x,   rotary.cos, rotary.sin, view, static_cast<int32_t>(rotary.head_dim), static_cast<int32_t>(rotary.n_pairs), rotary.interleaved,
      true};
}

RotatedAppend find_append(std::span<const Step> steps, size_t at) {
  RotatedAppend found;
  for (; at < steps.size() && found.rotaries.size() < 2; ++at) {
    const auto* rotary = std::get_if<Rotary>(&steps[at]);
    if (rotary == nullptr) break;
    found.rotaries.push_back(rotary);
  }
  if (at < steps.size()) found.append = std::get_if<Append>(&steps[at]);
  return found;
}

bool is_of(const RotatedAppend& steps, const Rows& rows) {
  const auto is_all = [](const Selection& selection) { return selection.base == Address::kNone; };
  if (steps.append != nullptr && (!is_same(steps.append->rows, rows) || !is_all(steps.append->selection))) return false;
  return std::ranges::all_of(steps.rotaries,
                             [&](const Rotary* rotary) { return is_same(rotary->rows, rows) && is_all(rotary->selection); });
}

namespace {

// The heads of a rotary that are appended, and those before them, which are queries.
bool take_rotary(const Rotary& rotary, AppendLaunch& launch) {
  const KvLayout& layout = launch.step.layout;
  int64_t n_queries = rotary.n_heads;
  if (const RotaryOf keys = source_of(launch.step.k, layout.n_heads, rotary); keys.there) {
    n_queries = (static_cast<int64_t>(keys.out.base) - static_cast<int64_t>(rotary.out.base)) / (rotary.head_dim * 4);
    if (n_queries + layout.n_heads != rotary.n_heads || rotary.head_dim != layout.key_dim) return false;
    launch.keys = keys;
  }
  if (n_queries == 0) return true;
  launch.queries = source_of(rotary.out, n_queries, rotary);
  if (launch.n_queries > 0 || !launch.queries.there || rotary.head_dim > decode_most_dim(layout.planes)) return false;
  launch.n_queries = static_cast<int32_t>(n_queries);
  return true;
}

// A warp reads a head before it writes it, and nobody else reads or writes it.
bool is_apart(const RotatedAppend& found, const AppendLaunch& launch) {
  std::vector<MemoryUse> uses;
  const int most = found.append->rows.most;
  const auto add = [&](const MemoryUse& use) {
    if (std::ranges::any_of(uses, [&](const MemoryUse& other) { return meets_other_elements(use, other, most); })) return false;
    uses.push_back(use);
    return true;
  };
  for (const Rotary* rotary : found.rotaries)
    for (const MemoryUse& use : row_uses(*rotary))
      if (!add(use)) return false;
  const KvLayout& layout = found.append->layout;
  if (!launch.keys.there && !add({found.append->k, int64_t{layout.n_heads} * layout.key_dim * 4})) return false;
  return add({found.append->v, int64_t{layout.n_heads} * layout.value_dim * 4});
}

}  // namespace

size_t lower_append(std::span<const Step> steps, size_t at, LaunchList& list) {
  const RotatedAppend found = find_append(steps, at);
  if (!list.target().fuses_attention || found.append == nullptr || !is_of(found, found.append->rows)) return 0;
  const KvLayout& layout = found.append->layout;
  if (std::max(layout.key_dim, layout.value_dim) > decode_most_dim(layout.planes)) return 0;
  AppendLaunch launch{.step = *found.append};
  for (const Rotary* rotary : found.rotaries)
    if (!take_rotary(*rotary, launch)) return 0;
  if (!is_apart(found, launch)) return 0;
  list.add(layout.planes == 2 ? "append_2" : "append_1", {launch.step.rows.most}, kAppendThreads, 0, launch);
  return found.n_steps();
}

}  // namespace kvik::cuda
