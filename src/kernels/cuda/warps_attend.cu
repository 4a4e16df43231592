#include "kernels/cuda/warps_attend.cuh"

namespace kvik::cuda {
namespace {

// As attend() of quick_attend.cu, with a warp for each span of a group instead of a block for each span. A warp starts to copy its keys
// before the launch before this one has ended; the block waits together only for the row's heads, and to merge the spans.
template <int kDim, SpanRingShape kShape>
__device__ __forceinline__ void attend_warps(const DecodeLaunch& launch) {
  using Ring = SpanRing<kDim, kShape>;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ DecodeShared kept;
  __shared__ alignas(16) float2 weights_of_spans[kSpansAGroup][kDecodeHeads];
  start_next();
  DecodeWork work{};
  RowNow now;
  const bool there = find_work(launch, work, now);
  const int group = blockIdx.x, warp = threadIdx.x / 32;
  work.span = group * kSpansAGroup + warp;
  work.owns = now.position / static_cast<unsigned>(kSpanGroupPositions) == blockIdx.x;
  const int first = work.first_of_group(), n = work.end_of_group() - first;
  if (!there || n <= 0) return wait_for_previous();
  const bool takes = work.span >= first && work.span < first + n;
  Ring ring(launch, work, shared_address(shared) + warp * Ring::kBytes);
  if (takes) {
#pragma unroll 1
    for (int tile = 0; tile < Ring::kSlots; ++tile) ring.fetch();
  }
  const PageTable& table = launch.step.pages;
  const uint64_t own_page =
      work.owns ? __ldcg(pointer<uint64_t>(table.pages) + work.slot * table.n_pages + now.position / static_cast<unsigned>(kPagePositions))
                : 0;
  take_heads<kDim>(launch, work, now, {own_page, 0}, shared, kept);
  __syncthreads();
  const auto* own_key = reinterpret_cast<const uint16_t*>(shared + launch.own_at);
  if (work.owns && now.n_branches > 0 && work.tile == 0) append_to_branches<kDim>(launch, work.kv_head, own_key, kDim);
  if (takes) {
    float scores[kSpanChunks][4] = {};
    uint32_t weights[kSpanChunks][2] = {};
    const float2 largest = score_span(ring, shared_address(shared + launch.queries_at), own_key, work, kept, scores);
    weigh_span(largest, scores, weights);
    const float2 sums = add_values(ring, own_key + kDim, weights);
    if (threadIdx.x % 32 < 4) kept.stats[work.span - first][threadIdx.x % 32] = make_float4(largest.x, largest.y, sums.x, sums.y);
  }
  __syncthreads();
  weigh_spans(n, weights_of_spans, kept);
  __syncthreads();
  const unsigned char* values = shared + (first - group * kSpansAGroup) * Ring::kBytes;
  finish_group<kDim>(launch, work, merge_warps<kDim, Ring::kBytes>(values, n, weights_of_spans, kept), shared, kept);
}

}  // namespace
}  // namespace kvik::cuda

#define KVIK_WARPS_ATTEND(name, dim, is_deep, blocks_per_unit)                              \
  extern "C" __global__ void __launch_bounds__(kvik::cuda::kDecodeThreads, blocks_per_unit) \
      name(const __grid_constant__ kvik::cuda::DecodeLaunch launch) {                       \
    kvik::cuda::attend_warps<dim, kvik::cuda::span_ring(dim, is_deep)>(launch);             \
  }
KVIK_WARPS_ATTEND(warps_attend_64, 64, false, 2)
KVIK_WARPS_ATTEND(warps_attend_64_deep, 64, true, 1)
KVIK_WARPS_ATTEND(warps_attend_128, 128, false, 2)
KVIK_WARPS_ATTEND(warps_attend_128_deep, 128, true, 1)
