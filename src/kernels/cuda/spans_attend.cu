#include "kernels/cuda/spans_attend.cuh"

namespace kvik::cuda {
namespace {

// As attend() of quick_attend.cu for several spans. The block that has the first span of the group merges: its own spans as they come,
// those of the other blocks, which they keep in registers, at the end.
template <int kDim>
__device__ __forceinline__ void attend_spans(const DecodeLaunch& launch) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ DecodeShared kept;
  __shared__ Row row;
  __shared__ uint64_t barriers[kRingTiles];
  __shared__ uint64_t pages[kSpansAGroup * kPagesASpan];
  start_next();
  set_up_barriers(barriers, kept);
  const Shape<1, kDim> shape{launch};
  DecodeWork work{};
  const bool there = find_row(launch, row, work, kept);
  const GroupPart part = find_part(launch, row, work);
  if (!there || part.n_spans <= 0) return wait_for_previous();
  read_pages(launch, part, work, pages);
  __syncthreads();
  const SpanRing<kDim> ring{launch, work, row, pages, shared_address(shared), shared_address(barriers)};
  const int half = threadIdx.x / kFetchers;
  ring.fetch_first(half, 2 * part.n_spans);
  auto* own_key = reinterpret_cast<uint16_t*>(shared + launch.own_at);
  const int own_span = work.owns ? row.position / kSpanPositions - work.span : -1;
  const OwnPlace own{work.owns ? pages[row.position / kPagePositions - work.span * kPagesASpan] : 0, own_key, own_key + kDim};
  if (threadIdx.x == 0 && part.leads && part.n_others > 0) kept.inbox.expect(part.n_others * (kDim / 16 * 512 + 64));
  take_heads<kDim>(launch, work, own, shared, kept);
  __syncthreads();
  if (work.owns && row.n_branches > 0 && work.place % launch.tiles_a_kv_head == 0) append_to_branches<kDim>(launch, work, own);

  auto* weights = reinterpret_cast<uint16_t*>(shared + launch.weights_at);
  SpanPart merged, sent[kMostSent];
#pragma unroll 1
  for (int i = 0; i < part.n_spans; ++i) {
    ring.wait(2 * i);
    if (i == own_span) {
      ring.put_own(i, own);
      __syncthreads();
    }
    bool seen[4];
    ring.find_seen(i, seen);
    float scores[4];
    score(shape, ring.tile(2 * i), shared_address(shared + launch.queries_at), scores);
    scale_plain(seen, launch.step.rule.scale, scores, kept);
    if (part.n_blocks > 1 && i + 1 == part.n_spans) {
      __syncwarp();
      let_cluster_send();  // this warp has read the last keys: what others send comes in their place
    }
    __syncthreads();  // keys were read, and the values of the span before
    if (const int t = 2 * i + kRingTiles - half; t < 2 * part.n_spans && t >= kRingTiles) ring.fetch(t);
    SpanPart span;
    span.largest = weigh_plain(seen, scores, weights, kept);
    __syncthreads();
    ring.wait(2 * i + 1);
    weigh_values<kDim>(ring.tile(2 * i + 1), shared_address(weights), span);
    if (part.leads)
      merge(merged, span, i == 0);
    else
      keep_to_send(sent, span);
  }
  if (part.n_blocks > 1) wait_for_cluster();
  const uint32_t inbox = ring.tile(2 * (part.n_of_lead - 1));
  if (!part.leads) return send_parts<kDim>(part, sent, inbox, kept);
  if (part.n_others > 0) {
    kept.inbox.wait();
    merge_others<kDim>(part, merged, reinterpret_cast<const float4*>(shared + (inbox - shared_address(shared))), kept);
  }
  finish_group<kDim>(launch, work, merged, kept);
}

}  // namespace
}  // namespace kvik::cuda

extern "C" __global__ void __launch_bounds__(kvik::cuda::kDecodeThreads, 2)
    spans_attend_64(const __grid_constant__ kvik::cuda::DecodeLaunch launch) {
  kvik::cuda::attend_spans<64>(launch);
}
extern "C" __global__ void __launch_bounds__(kvik::cuda::kDecodeThreads, 2)
    spans_attend_128(const __grid_constant__ kvik::cuda::DecodeLaunch launch) {
  kvik::cuda::attend_spans<128>(launch);
}
