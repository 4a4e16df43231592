#include "kernels/cuda/lower_decode.h"

#include <algorithm>
#include <fmt/format.h>

#include "kernels/cuda/memory_range.h"
#include "kernels/cuda/rotaries.h"
#include "kernels/device/order.h"

namespace kvik::cuda {
namespace {

using namespace device;

// The steps that one launch may take.
struct Found {
  RotatedAppend before;  // without an append: nothing
  const Attend* attend = nullptr;
  const MergeSpans* merge = nullptr;
  size_t n_steps() const { return before.n_steps() + 2; }
};

bool find(std::span<const Step> steps, size_t at, Found& found) {
  found.before = find_append(steps, at);
  if (found.before.append == nullptr) found.before = {};
  const size_t next = at + found.before.n_steps();
  if (next + 1 >= steps.size()) return false;
  found.attend = std::get_if<Attend>(&steps[next]);
  found.merge = std::get_if<MergeSpans>(&steps[next + 1]);
  return found.attend != nullptr && found.merge != nullptr;
}

// Every head that a rotary turns is one that the launch reads, so that it can write them all.
bool take_rotaries(const Found& found, DecodeLaunch& launch) {
  const Attend& attend = *found.attend;
  for (const Rotary* rotary : found.before.rotaries) {
    int64_t n_heads = rotary->n_heads;
    if (rotary->head_dim != attend.layout.key_dim) return false;
    if (const RotaryOf q = source_of(attend.q, attend.n_heads, *rotary); q.there) launch.queries = q, n_heads -= attend.n_heads;
    if (const RotaryOf k = source_of(found.before.append->k, attend.layout.n_heads, *rotary); k.there)
      launch.keys = k, n_heads -= attend.layout.n_heads;
    if (n_heads != 0) return false;
  }
  return true;
}

// What some blocks write, others may not have read yet.
bool is_apart_in_memory(const Found& found, const DecodeLaunch& launch) {
  const Attend& attend = *found.attend;
  const KvLayout& layout = attend.layout;
  const auto range = [&](const View& view, int64_t floats) { return range_of(view, attend.rows.most, floats * 4); };
  std::vector<MemoryRange> read, written = {range(found.merge->out, int64_t{found.merge->n_heads} * found.merge->value_dim)};
  read.push_back(range(launch.queries.there ? launch.queries.x : attend.q, int64_t{attend.n_heads} * layout.key_dim));
  if (found.before.append != nullptr) {
    read.push_back(range(launch.keys.there ? launch.keys.x : found.before.append->k, int64_t{layout.n_heads} * layout.key_dim));
    read.push_back(range(found.before.append->v, int64_t{layout.n_heads} * layout.value_dim));
  }
  for (const Rotary* rotary : found.before.rotaries) written.push_back(range(rotary->out, rotary->n_heads * rotary->head_dim));
  for (size_t i = 0; i < written.size(); ++i) {
    const auto overlaps = [&](const MemoryRange& other) { return written[i].overlaps(other); };
    if (std::ranges::any_of(read, overlaps) || std::any_of(written.begin(), written.begin() + static_cast<int64_t>(i), overlaps))
      return false;
  }
  return true;
}

bool can_take(const Found& found, const Target& target) {
  const Attend& attend = *found.attend;
  const Rows& rows = attend.rows;
  const KvLayout& layout = attend.layout;
  const MergeSpans& merge = *found.merge;
  if (!target.fuses_attention || attend.groups.most_rows != 1 || !is_same(merge.rows, rows)) return false;
  if (merge.parts.parts != attend.parts.parts || std::max(layout.key_dim, layout.value_dim) > decode_most_dim(layout.planes)) return false;
  if (found.before.append != nullptr) {
    const Append& append = *found.before.append;
    const bool same = append.pages.pages == attend.pages.pages && append.page_offset == attend.page_offset;
    if (!rows.apart || !same || append.from_source || attend.rule.from_source || !attend.rule.causal) return false;
  }
  return is_of(found.before, rows);
}

// Nothing that overlaps the launch writes what it reads before it waits: Begin does not overlap what follows it.
bool reads_early(std::span<const Step> before, const DecodeLaunch& launch) {
  for (const RotaryOf* rotary : {&launch.queries, &launch.keys})
    for (const View* angles : {&rotary->cos, &rotary->sin})
      if (rotary->there && !angles->by_position && angles->stride != 0) return false;
  for (size_t i = before.size(); i-- > 0;) {
    if (std::holds_alternative<Begin>(before[i])) return true;
    const auto* other = std::get_if<Append>(&before[i]);
    if (other != nullptr && other->pages.pages == launch.append.pages.pages && other->page_offset == launch.append.page_offset)
      return false;
  }
  return false;
}

// Heads of one kind, rotated or not. False if rows are too far apart, or sines are not where cosines are.
bool find_heads(const RotaryOf& rotary, const View& plain, DecodeHeads& heads) {
  const auto is_near = [](int64_t stride) { return stride >= 0 && stride <= INT32_MAX; };
  const View& x = rotary.there ? rotary.x : plain;
  heads.x = x.base;
  heads.stride = static_cast<int32_t>(x.stride);
  if (!rotary.there) return is_near(x.stride);
  heads.turned = rotary.out.base;
  heads.turned_stride = static_cast<int32_t>(rotary.out.stride);
  const auto angle_stride = [](const View& angles) { return angles.by_position ? angles.stride : 0; };  // of others, stride is 0
  const auto find_angles = [](const View& angles, Address(&at)[2]) {
    at[0] = angles.base;
    at[1] = angles.by_position && angles.beyond != Address::kNone ? angles.beyond : angles.base;
  };
  find_angles(rotary.cos, heads.cos);
  find_angles(rotary.sin, heads.sin);
  heads.angle_stride = static_cast<int32_t>(angle_stride(rotary.cos));
  return is_near(x.stride) && is_near(rotary.out.stride) && is_near(angle_stride(rotary.cos)) &&
         angle_stride(rotary.cos) == angle_stride(rotary.sin);
}

// Queries, keys and values, in memory.
bool find_all_heads(DecodeLaunch& launch) {
  const Attend& attend = launch.step;
  launch.heads[1].in_page = attend.page_offset;
  launch.heads[2].in_page = attend.page_offset + attend.layout.values_offset;
  return find_heads(launch.queries, attend.q, launch.heads[0]) && find_heads(launch.keys, launch.append.k, launch.heads[1]) &&
         find_heads({}, launch.append.v, launch.heads[2]);
}

// What quick_attend.cu has kernels for: every row appends, and heads are rotated as a whole, by halves.
bool is_common(const DecodeLaunch& launch) {
  const AttendRule& rule = launch.step.rule;
  const KvLayout& layout = launch.step.layout;
  const auto is_turned = [&](const RotaryOf& rotary) {
    return !rotary.there || (!rotary.interleaved && rotary.n_pairs * 2 == layout.key_dim);
  };
  return launch.appends && launch.reads_early && layout.planes == 1 && layout.key_dim == layout.value_dim &&
         (layout.key_dim == 64 || layout.key_dim == 128) && is_turned(launch.queries) && is_turned(launch.keys) && rule.n_roundings == 0 &&
         rule.soft_cap == 0.0f && rule.slopes == Address::kNone && rule.distance_bias == Address::kNone && rule.scale > 0.0f &&
         !launch.step.q.by_position && !launch.append.k.by_position && !launch.append.v.by_position && !launch.out.by_position &&
         launch.step.parts.parts != Address::kNone &&
         int64_t{launch.step.rows.most} * launch.step.n_heads * launch.step.parts.n_parts <= INT32_MAX;
}

// Whether each span is computed by a warp, and which rings the warps have. Blocks of one span each are faster with at most two of them per
// multiprocessor; deep rings are for launches with at most one block per multiprocessor.
SpanWarps span_warps(const Target& target, int64_t n_blocks, int n_warps) {
  if (target.span_warps != SpanWarps::kAuto) return target.span_warps;
  constexpr int kMostBlocks = 2;
  if (n_warps < 2 || n_blocks * n_warps <= int64_t{target.n_units} * kMostBlocks) return SpanWarps::kNever;
  return n_blocks <= target.n_units ? SpanWarps::kDeep : SpanWarps::kShort;
}

// The launch of warps_attend.cu. False if another kernel is for it.
bool add_warps(DecodeLaunch launch, int n_spans, LaunchList& list) {
  const Attend& attend = launch.step;
  const int places = attend.layout.n_heads * launch.tiles_a_kv_head, n_groups = ceil_div(n_spans, kSpansAGroup);
  const int n_warps = std::min(n_spans, kSpansAGroup), dim = attend.layout.key_dim;
  const SpanWarps how = span_warps(list.target(), int64_t{attend.rows.most} * places * n_groups, n_warps);
  if (how == SpanWarps::kNever) return false;
  const bool deep = how == SpanWarps::kDeep;
  launch.queries_at = n_warps * span_ring_bytes(dim, deep);
  launch.own_at = launch.queries_at + kDecodeHeads * launch.key_stride * 2;
  const int shared_bytes = launch.own_at + 2 * dim * 2;
  launch.heads[0].to = launch.queries_at;
  launch.heads[1].to = launch.own_at;
  launch.heads[2].to = launch.own_at + dim * 2;  // of the only one
  if (shared_bytes > list.target().shared_bytes) return false;
  list.add(fmt::format("warps_attend_{}{}", dim, deep ? "_deep" : ""), {n_groups, places, attend.rows.most}, kDecodeThreads, shared_bytes,
           launch);
  return true;
}

}  // namespace

size_t lower_decode(std::span<const Step> steps, size_t at, LaunchList& list) {
  const Target& target = list.target();
  Found found;
  if (!find(steps, at, found) || !can_take(found, target)) return 0;
  const Attend& attend = *found.attend;
  const KvLayout& layout = attend.layout;
  DecodeLaunch launch{.step = attend, .out = found.merge->out};
  launch.step.rule.sinks = found.merge->rule.sinks;
  if (!take_rotaries(found, launch) || !is_apart_in_memory(found, launch)) return 0;
  if (found.before.append != nullptr) {
    launch.append = *found.before.append;
    launch.appends = true;
    launch.reads_early = reads_early(steps.first(at), launch);
  }
  launch.tiles_a_kv_head = ceil_div(attend.most_heads, kDecodeHeads);
  launch.tiles_inverse = static_cast<uint32_t>(ceil_div(int64_t{1} << 32, launch.tiles_a_kv_head));
  const auto padded = [](int32_t dim) { return (dim + 15) / 16 * 16 + 8; };
  launch.key_stride = padded(layout.key_dim);
  launch.value_stride = padded(layout.value_dim);
  launch.values_at = layout.planes * kSpanPositions * launch.key_stride * 2;
  launch.queries_at = launch.values_at + layout.planes * kSpanPositions * launch.value_stride * 2;
  constexpr int kReadAhead = 64;  // queries are read two steps at a time
  const int query_bytes = layout.planes * kDecodeHeads * launch.key_stride * 2 + kReadAhead;
  const int shared_bytes = launch.queries_at + std::max(query_bytes, layout.planes * kDecodeHeads * kWeightStride * 2);
  const int n_spans = attend.parts.n_parts * attend.parts.spans_a_part, cluster = std::clamp(n_spans, 2, kSpansAGroup);
  const int n_tiles = (launch.value_stride - 8) / 16, n_groups = ceil_div(n_spans, kSpansAGroup);
  int inbox_tiles = 0;
  for (int n = 1; n <= cluster; ++n) inbox_tiles = std::max(inbox_tiles, n * ceil_div(n_tiles, n));
  const int places = layout.n_heads * launch.tiles_a_kv_head;
  const int64_t merged_bytes = int64_t{kDecodeHeads} * 4 * (2 * n_groups + 1 + layout.value_dim);
  if (shared_bytes > target.shared_bytes || inbox_tiles * 512 > launch.values_at || merged_bytes > launch.queries_at) return 0;
  constexpr int kMostGrid = 65535;  // in y and z
  if (places > kMostGrid || attend.rows.most > kMostGrid || int64_t{attend.rows.most} * places > target.n_tickets) return 0;
  launch.tickets = target.tickets;
  const bool is_quick = target.quick_kernels && is_common(launch) && find_all_heads(launch);
  launch.heads[0].to = launch.queries_at;
  launch.heads[1].to = 0;
  launch.heads[2].to = launch.values_at;
  for (DecodeHeads& heads : launch.heads) heads.to_stride = launch.key_stride * 2;
  if (is_quick && add_warps(launch, n_spans, list)) return found.n_steps();
  std::string kernel = layout.planes == 2 ? "decode_attend_2" : "decode_attend_1";
  if (layout.planes == 1 && layout.key_dim == layout.value_dim && (layout.key_dim == 64 || layout.key_dim == 128))
    kernel += fmt::format("_{}", layout.key_dim);
  const bool is_far = n_groups > 1 || launch.step.rule.sinks != Address::kNone;
  if (is_quick) kernel = fmt::format("quick_attend_{}{}", layout.key_dim, is_far ? "_far" : "");
  list.add(kernel, {ceil_div(n_spans, cluster) * cluster, places, attend.rows.most}, kDecodeThreads, shared_bytes, launch).cluster =
      static_cast<unsigned>(cluster);
  return found.n_steps();
}

}  // namespace kvik::cuda
