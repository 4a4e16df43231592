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
  if (threadIdx.x == 0) {
    for (uint64_t& barrier : barriers) init_barrier(shared_address(&barrier), SpanRing<kDim>::kFetchers);
    kept.inbox.set_up();
  }
  const Shape<1, kDim> shape{launch};
  DecodeWork work{};
  const bool there = find_row(launch, row, work, kept);
  const GroupPart part = find_part(launch, row, work);
  if (!there || part.n_spans <= 0) return wait_for_previous();
  read_pages(launch, part, work, pages);
  __syncthreads();
  const SpanRing<kDim> ring{launch, work, row, pages, shared_address(shared), shared_address(barriers)};
  const int half = threadIdx.x / ring.kFetchers;
#pragma unroll 1
  for (int t = half; t < min(kRingTiles, 2 * part.n_spans); t += 2) ring.fetch(t);
  auto* own_key = reinterpret_cast<uint16_t*>(shared + launch.own_at);
  const int own_span = work.owns ? row.position / kSpanPositions - work.span : -1;
  const OwnPlace own{work.owns ? pages[row.position / kPagePositions - work.span * kPagesASpan] : 0, own_key, own_key + kDim};
  const int warp = threadIdx.x / 32, n_tasks = work.n_heads + (work.owns ? 2 : 0);
  if (threadIdx.x == 0 && part.leads && part.n_others > 0) kept.inbox.expect(part.n_others * (kDim / 16 * 512 + 64));
  HeadTask<kDim> task(launch, work, own, shared, kept, warp);
  wait_for_previous();
  if (warp < n_tasks) task.run(&kept.scale[warp]);
#pragma unroll 1
  for (int more = warp + kDecodeWarps; more < n_tasks; more += kDecodeWarps)
    HeadTask<kDim>(launch, work, own, shared, kept, more).run(&kept.scale[more % kDecodeHeads]);
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
    if (part.leads) {
      merge(merged, span, i == 0);
    } else {
#pragma unroll
      for (int k = 1; k < kMostSent; ++k) sent[k - 1] = sent[k];  // the newest is the last: an index would put them into memory
      sent[kMostSent - 1] = span;
    }
  }
  if (part.n_blocks > 1) wait_for_cluster();
  const uint32_t inbox = ring.tile(2 * (part.n_of_lead - 1));
  if (!part.leads) return send_parts<kDim>(part, sent, inbox, kept);
  if (part.n_others > 0) {
    kept.inbox.wait();
    merge_others<kDim>(part, merged, reinterpret_cast<const float4*>(shared + (inbox - shared_address(shared))), kept);
  }
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
