#include "kernels/cuda/quick_attend.cuh"

namespace kvik::cuda {
namespace {

// As decode() of decode.cu, which says what blocks do; every row appends, and tables and rows were there before the launch before this one.
// kFar: rows may see several groups of spans, or sinks. The kernel without them is shorter (docs/cuda.md says why that matters).
template <int kDim, bool kFar>
__device__ __forceinline__ void attend(const DecodeLaunch& launch) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ DecodeShared kept;
  __shared__ float2 weights_of_spans[kSpansAGroup][kDecodeHeads];
  start_next();
  if (threadIdx.x == 0) kept.inbox.set_up();
  const Shape<1, kDim> shape{launch};
  DecodeWork work{};
  RowNow now;
  const bool there = find_work(launch, work, now);
  work.span = blockIdx.x;
  work.owns = work.span == work.end_span - 1;
  if (!there || work.span < work.first_span || work.span >= work.end_span) return wait_for_previous();  // there is always a key: its own
  uint64_t pages[kPagesASpan];
  find_quick_pages(launch.step, work, pages);
  const uint32_t keys = shared_address(shared);
  fetch_span<kDim>(launch, work, pages, keys);
  if (threadIdx.x == 0) {
    const int first = work.first_of_group(), n = work.end_of_group() - first, own = work.span - first;
    kept.inbox.expect(n * (small_quotient(kDim / 16 - own + n - 1, n) * 512 + 64));
  }
  auto* weights = reinterpret_cast<uint16_t*>(shared + launch.queries_at);
  const int own_position = now.position % static_cast<unsigned>(kSpanPositions);
  take_heads<kDim>(launch, work, now, {pages[kPagesASpan - 1], own_position}, shared, kept);
  wait_copies<0>();
  __syncthreads();
  if (work.owns && now.n_branches > 0 && work.tile == 0)
    append_to_branches<kDim>(launch, work.kv_head, reinterpret_cast<const uint16_t*>(shared) + own_position * (kDim + 8),
                             launch.values_at / 2);
  float scores[4];
  score(shape, keys, keys + launch.queries_at, scores);
  scale_plain(work, launch.step.rule.scale, scores, kept);
  __syncwarp();
  let_cluster_send();  // this warp has read keys: what others send comes in their place
  __syncthreads();
  const float2 largest = weigh_plain(scores, weights, kept);
  __syncthreads();
  weigh(shape, work, keys + launch.values_at, shared_address(weights), keys, largest, kept);
  kept.inbox.wait();
  merge_spans<kDim, kFar>(launch, work, reinterpret_cast<const float*>(shared), weights_of_spans, kept);
  if (!kFar || work.is_whole()) return;
  __syncthreads();
  if (threadIdx.x == 0) {
    const auto last = static_cast<uint32_t>(work.end_span - work.first_span - 1);
    kept.is_last = arrives_last(pointer<uint32_t>(launch.tickets) + work.row.index * gridDim.y + work.place, last);
  }
  __syncthreads();
  if (kept.is_last) merge_all<kDim>(launch, work, shared, kept);
}

}  // namespace
}  // namespace kvik::cuda

#define KVIK_QUICK_ATTEND(name, dim, is_far)                                  \
  extern "C" __global__ void __launch_bounds__(kvik::cuda::kDecodeThreads, 3) \
      name(const __grid_constant__ kvik::cuda::DecodeLaunch launch) {         \
    kvik::cuda::attend<dim, is_far>(launch);                                  \
  }
KVIK_QUICK_ATTEND(quick_attend_64, 64, false)
KVIK_QUICK_ATTEND(quick_attend_64_far, 64, true)
KVIK_QUICK_ATTEND(quick_attend_128, 128, false)
KVIK_QUICK_ATTEND(quick_attend_128_far, 128, true)
