#pragma once

#include "kernels/cuda/quick_attend.cuh"

// Decode attention of many spans: a block takes several spans of a row and a KV head, one after another. While it computes one, the next
// one arrives in a ring of tiles: keys of a span, values, keys of the next one, … Blocks are started once for several spans, and all fit at
// once.
namespace kvik::cuda {

constexpr int kMostSent = kSpansAGroup / 2;  // spans of a block that does not merge

// Which spans of a group the block has. Those of the block's cluster are in order; the first one that the row sees leads.
struct GroupPart {
  int n_spans, n_blocks;
  int n_of_lead, n_others;  // spans of the block that merges, and of all others
  int lead, first_other;    // rank of that block; this block's first span, counted from the first one of the others
  bool leads;
};

__device__ __forceinline__ GroupPart find_part(const DecodeLaunch& launch, const Row& row, DecodeWork& work) {
  GroupPart part;
  int n_blocks;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(n_blocks));
  part.n_blocks = n_blocks;
  const int rank = blockIdx.x % n_blocks, spans = launch.spans_a_block, start = blockIdx.x / n_blocks * kSpansAGroup;
  const int first = max(work.first_span, start), end = min(work.end_span, start + kSpansAGroup);
  work.span = max(first, start + rank * spans);
  part.n_spans = min(end, start + (rank + 1) * spans) - work.span;
  part.lead = (first - start) / spans;
  part.leads = rank == part.lead;
  part.n_of_lead = min(end, start + (part.lead + 1) * spans) - first;
  part.n_others = end - first - part.n_of_lead;
  part.first_other = work.span - first - part.n_of_lead;
  const int own = row.position / kSpanPositions;
  work.owns = own >= work.span && own < work.span + part.n_spans;
  return part;
}

__device__ __forceinline__ void read_pages(const DecodeLaunch& launch, const GroupPart& part, const DecodeWork& work, uint64_t* pages) {
  if (threadIdx.x >= part.n_spans * kPagesASpan) return;
  const PageTable& table = launch.step.pages;
  const int page = work.span * kPagesASpan + threadIdx.x, first = page * kPagePositions;
  const bool is_seen = first < work.visible.end && first + kPagePositions > work.visible.first;
  pages[threadIdx.x] = is_seen ? __ldcg(pointer<uint64_t>(table.pages) + work.slot * table.n_pages + page) : 0;
}

constexpr int kFetchers = kDecodeThreads / 2;  // of a tile

__device__ __forceinline__ void set_up_barriers(uint64_t (&barriers)[kRingTiles], DecodeShared& kept) {
  if (threadIdx.x != 0) return;
  for (uint64_t& barrier : barriers) init_barrier(shared_address(&barrier), kFetchers);
  kept.inbox.set_up();
}

// Tile 2 i holds keys of the block's i-th span, tile 2 i + 1 values. Half of the block's threads fetch a tile.
template <int kDim>
struct SpanRing {
  static constexpr int kStride = kDim + 8, kTileBytes = kSpanPositions * kStride * 2;
  const DecodeLaunch& launch;
  const DecodeWork& work;
  const Row& row;
  const uint64_t* pages;
  uint32_t memory, barriers;

  __device__ __forceinline__ uint32_t tile(int t) const { return memory + t % kRingTiles * kTileBytes; }
  __device__ __forceinline__ uint32_t barrier(int t) const { return barriers + t % kRingTiles * 8; }
  __device__ __forceinline__ void wait(int t) const { wait_barrier(barrier(t), t / kRingTiles & 1); }

  // Earlier positions that the row sees, and zeros for others; not the row's own.
  __device__ __forceinline__ void fetch(int t) const {
    constexpr int kPieces = kDim / 8, kRowsAtOnce = kFetchers / kPieces, kCopies = kSpanPositions / kRowsAtOnce;
    const int thread = threadIdx.x % kFetchers, place = thread / kPieces, piece = thread % kPieces, i = t / 2;
    const KvLayout& layout = launch.step.layout;
    const int start = (work.span + i) * kSpanPositions, first = work.visible.first - start, end = row.position - start;
    const int64_t offset = launch.step.page_offset + work.kv_head * layout.head_bytes + (t % 2 != 0 ? layout.values_offset : 0) +
                           (place * kDim + piece * 8) * 2;
    const uint32_t to = tile(t) + (place * kStride + piece * 8) * 2;
#pragma unroll
    for (int k = 0; k < kCopies; ++k) {
      const int ahead = k * kRowsAtOnce, here = place + ahead;
      const auto* from =
          reinterpret_cast<const void*>(pages[i * kPagesASpan + ahead / kPagePositions] + offset + ahead % kPagePositions * kDim * 2);
      if (here != end) copy_async(to + ahead * kStride * 2, from, here >= first && here < end);
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier(t)) : "memory");
  }

  // By each half of the block, what fits.
  __device__ __forceinline__ void fetch_first(int half, int n_tiles) const {
#pragma unroll 1
    for (int t = half; t < min(kRingTiles, n_tiles); t += 2) fetch(t);
  }

  // The row's own key and value, into the tiles of the block's i-th span.
  __device__ __forceinline__ void put_own(int i, const OwnPlace& own) const {
    constexpr int kPieces = kDim / 8;
    if (threadIdx.x >= 2 * kPieces) return;
    const bool is_value = threadIdx.x >= kPieces;
    const int piece = threadIdx.x % kPieces;
    const uint4 x = reinterpret_cast<const uint4*>(is_value ? own.value : own.key)[piece];
    const uint32_t to = tile(2 * i + (is_value ? 1 : 0)) + row.position % kSpanPositions * kStride * 2 + piece * 16;
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
  }

  // The scores of this thread that count.
  __device__ __forceinline__ void find_seen(int i, bool (&seen)[4]) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int key = (work.span + i) * kSpanPositions + threadIdx.x / 32 * 16 + lane / 4 + k / 2 * 8;
      seen[k] = key >= work.visible.first && key < work.visible.end && lane % 4 * 2 + k % 2 < work.n_heads;
    }
  }
};

// What a span or several add: values of 16 dimensions (the warp's) by 8 heads as mma leaves them, largest scores and sums of heads 2t and
// 2t + 1.
struct SpanPart {
  float4 values;
  float2 largest, sums;
};

// Weights times values, and sums of weights, as weigh() of decode_span.cuh.
template <int kDim>
__device__ __forceinline__ void weigh_values(uint32_t values, uint32_t weights, SpanPart& part) {
  constexpr int kSteps = kSpanPositions / kStepColumns, kStride = kDim + 8;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp >= kDim / 16) return;
  constexpr uint32_t kOnes = 0x3c003c00u;
  const uint32_t p_at = weights + (lane % 8 * kWeightStride + lane / 8 * 8) * 2;
  const uint32_t v_at = values + ((lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8 + warp * 16) * 2;
  float products[4] = {}, sums[4] = {};
#pragma unroll
  for (int k = 0; k < kSteps; k += 2) {
    uint32_t p[4];
    load_matrices(p, p_at + k * kStepColumns * 2);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t v[4];
      load_matrices_transposed(v, v_at + (k + half) * kStepColumns * kStride * 2);
      mma(products, v[0], v[1], v[2], v[3], p[2 * half], p[2 * half + 1]);
      mma(sums, kOnes, kOnes, kOnes, kOnes, p[2 * half], p[2 * half + 1]);
    }
  }
  part.values = make_float4(products[0], products[1], products[2], products[3]);
  part.sums = make_float2(sums[0], sums[1]);
}

// The next part in order.
__device__ __forceinline__ void merge(SpanPart& into, const SpanPart& part, bool is_first) {
  if (is_first) {
    into = part;
    return;
  }
  const float2 most = make_float2(part.largest.x > into.largest.x ? part.largest.x : into.largest.x,
                                  part.largest.y > into.largest.y ? part.largest.y : into.largest.y);
  const float2 before = make_float2(part_weight(into.largest.x, most.x), part_weight(into.largest.y, most.y));
  const float2 weight = make_float2(part_weight(part.largest.x, most.x), part_weight(part.largest.y, most.y));
  merge_values(into.values, part.values, before, weight);
  into.sums.x = fused(part.sums.x, weight.x, into.sums.x * before.x);
  into.sums.y = fused(part.sums.y, weight.y, into.sums.y * before.y);
  into.largest = most;
}

// The newest is the last: an index would put them into memory.
__device__ __forceinline__ void keep_to_send(SpanPart (&sent)[kMostSent], const SpanPart& span) {
#pragma unroll
  for (int k = 1; k < kMostSent; ++k) sent[k - 1] = sent[k];
  sent[kMostSent - 1] = span;
}

// To the block that leads: the last of `sent`, after those of the blocks before this one.
template <int kDim>
__device__ __forceinline__ void send_parts(const GroupPart& part, const SpanPart (&sent)[kMostSent], uint32_t inbox, DecodeShared& kept) {
  constexpr int kTiles = kDim / 16;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp >= kTiles) return;
#pragma unroll
  for (int i = 0; i < kMostSent; ++i) {
    const int k = i - (kMostSent - part.n_spans), span = part.first_other + k;
    if (k < 0) continue;
    kept.inbox.send(inbox + ((span * kTiles + warp) * 32 + lane) * 16, part.lead, sent[i].values);
    if (threadIdx.x < 4)
      kept.inbox.send(shared_address(&kept.stats[span][lane]), part.lead,
                      make_float4(sent[i].largest.x, sent[i].largest.y, sent[i].sums.x, sent[i].sums.y));
  }
}

template <int kDim>
__device__ __forceinline__ void merge_others(const GroupPart& part, SpanPart& merged, const float4* inbox, const DecodeShared& kept) {
  constexpr int kTiles = kDim / 16;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp >= kTiles) return;
#pragma unroll 1
  for (int span = 0; span < part.n_others; ++span) {
    const float4 stats = kept.stats[span][lane % 4];
    merge(merged, {inbox[(span * kTiles + warp) * 32 + lane], make_float2(stats.x, stats.y), make_float2(stats.z, stats.w)}, false);
  }
}

// The result, or the part of the group.
template <int kDim>
__device__ __forceinline__ void write_merged(const DecodeLaunch& launch, const DecodeWork& work, const SpanPart& merged, bool whole,
                                             const DecodeShared& kept) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, dim = warp * 16 + g;
  if (warp >= kDim / 16) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (2 * t + h >= work.n_heads) continue;
    const int head = kept.head[2 * t + h];
    const float low = h == 0 ? merged.values.x : merged.values.y, high = h == 0 ? merged.values.z : merged.values.w;
    const float most = h == 0 ? merged.largest.x : merged.largest.y, sum = h == 0 ? merged.sums.x : merged.sums.y;
    if (whole) {
      const Quotient q = quotient_of(launch.step.rule, head, most, sum);
      float* out = row_of<float>(launch.out, work.row) + head * kDim + dim;
      __stcg(out, low * q.factor / q.divisor);
      __stcg(out + 8, high * q.factor / q.divisor);
    } else {
      float* to = group_part(launch.step, work, head, work.group());
      __stcg(to + 2 + dim, low);
      __stcg(to + 2 + dim + 8, high);
      if (dim == 0) __stcg(reinterpret_cast<float2*>(to), make_float2(most, sum));
    }
  }
}

// The group is merged; the last group of the row to be merged merges all.
template <int kDim>
__device__ __forceinline__ void finish_group(const DecodeLaunch& launch, const DecodeWork& work, const SpanPart& merged,
                                             DecodeShared& kept) {
  const int n_groups = (work.end_span - 1) / kSpansAGroup - work.first_span / kSpansAGroup + 1;
  write_merged<kDim>(launch, work, merged, n_groups == 1, kept);
  if (n_groups == 1) return;
  __syncthreads();
  if (threadIdx.x == 0)
    kept.is_last =
        arrives_last(pointer<uint32_t>(launch.tickets) + work.row.index * gridDim.y + work.place, static_cast<uint32_t>(n_groups - 1));
  __syncthreads();
  if (kept.is_last) merge_all<kDim, 16>(launch, work, kept);
}

}  // namespace kvik::cuda
