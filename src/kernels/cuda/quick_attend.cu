#include "kernels/cuda/quick_attend.cuh"

namespace kvik::cuda {
namespace {

// As decode() of decode.cu, which says what blocks do; every row appends, and tables and rows were there before the launch before this one.
template <int kDim>
__device__ __forceinline__ void attend(const DecodeLaunch& launch) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ DecodeShared kept;
  __shared__ Row row;
  __shared__ float2 weights_of_spans[kSpansAGroup][kDecodeHeads];
  start_next();
  if (threadIdx.x == 0) kept.inbox.set_up();
  const Shape<1, kDim> shape{launch};
  const Attend& step = launch.step;
  DecodeWork work{};
  const bool there = find_row(launch, row, work, kept);
  work.span = blockIdx.x;
  work.owns = work.span == row.position / kSpanPositions;
  if (!there || work.span < work.first_span || work.span >= work.end_span) return wait_for_previous();  // there is always a key: its own
  uint64_t pages[kPagesASpan];
  find_pages(step, work, pages);
  const uint32_t keys = shared_address(shared), values = keys + launch.values_at;
  const int64_t offset = step.page_offset + work.kv_head * step.layout.head_bytes;
  fetch<1, kDim>(work, pages, offset, kDim, kDim + 8, keys);
  fetch<1, kDim>(work, pages, offset + step.layout.values_offset, kDim, kDim + 8, values);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    const int first = work.first_of_group(), n = work.end_of_group() - first, own = work.span - first;
    kept.inbox.expect(n * ((kDim / 16 - own + n - 1) / n * 512 + 64));
  }
  bool seen[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int key = work.span * kSpanPositions + warp * 16 + lane / 4 + i / 2 * 8;
    seen[i] = key >= work.visible.first && key < work.visible.end && lane % 4 * 2 + i % 2 < work.n_heads;
  }
  const float rule_scale = step.rule.scale;
  auto* weights = reinterpret_cast<uint16_t*>(shared + launch.queries_at);
  const int own_position = row.position % kSpanPositions;
  const OwnPlace own{page_of(pages, own_position), reinterpret_cast<uint16_t*>(shared) + own_position * (kDim + 8),
                     reinterpret_cast<uint16_t*>(shared + launch.values_at) + own_position * (kDim + 8)};
  take_heads<kDim>(launch, work, own, shared, kept);
  wait_copies<0>();
  __syncthreads();
  if (work.owns && row.n_branches > 0 && work.place % launch.tiles_a_kv_head == 0) append_to_branches<kDim>(launch, work, own);
  float scores[4];
  score(shape, keys, keys + launch.queries_at, scores);
  scale_plain(seen, rule_scale, scores, kept);
  __syncwarp();
  let_cluster_send();  // this warp has read keys: what others send comes in their place
  __syncthreads();
  const float2 largest = weigh_plain(seen, scores, weights, kept);
  __syncthreads();
  weigh(shape, work, values, shared_address(weights), keys, largest, kept);
  kept.inbox.wait();
  merge_spans<kDim>(launch, work, reinterpret_cast<const float*>(shared), weights_of_spans, kept);
  if (work.first_span / kSpansAGroup == (work.end_span - 1) / kSpansAGroup) return;
  __syncthreads();
  if (threadIdx.x == 0) {
    const auto last = static_cast<uint32_t>(work.end_span - work.first_span - 1);
    kept.is_last = arrives_last(pointer<uint32_t>(launch.tickets) + work.row.index * gridDim.y + work.place, last);
  }
  __syncthreads();
  if (!kept.is_last) return;
  merge_all<kDim, 8>(launch, work, kept);
}

}  // namespace
}  // namespace kvik::cuda

extern "C" __global__ void __launch_bounds__(kvik::cuda::kDecodeThreads, 3)
    quick_attend_64(const __grid_constant__ kvik::cuda::DecodeLaunch launch) {
  kvik::cuda::attend<64>(launch);
}
extern "C" __global__ void __launch_bounds__(kvik::cuda::kDecodeThreads, 3)
    quick_attend_128(const __grid_constant__ kvik::cuda::DecodeLaunch launch) {
  kvik::cuda::attend<128>(launch);
}
