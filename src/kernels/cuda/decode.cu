#include "kernels/cuda/decode_span.cuh"

// Attention of rows that each have a sequence of their own. Keys are the rows of an mma and heads its columns, then dimensions of values
// are the rows: eight warps take 16 positions each, then 16 dimensions each. Keys and values of earlier positions are on their way into
// shared memory before the launch before has ended.
namespace kvik::cuda {
namespace {

// Bytes that the blocks of the group send to this one: its tiles and the sums, from each of them.
__device__ __forceinline__ int inbox_bytes(const DecodeWork& work, int n_tiles) {
  const int first = work.first_of_group(), n = work.end_of_group() - first, own = work.span - first;
  return n * ((n_tiles - own + n - 1) / n * 512 + 64);
}

template <int kPlanes, int kDim>
__device__ __forceinline__ void decode(const DecodeLaunch& launch) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ DecodeShared kept;
  __shared__ Row row;
  start_next();
  if (threadIdx.x == 0) kept.inbox.set_up();
  const Shape<kPlanes, kDim> shape{launch};
  const Attend& step = launch.step;
  if (!launch.reads_early) wait_for_previous();
  DecodeWork work{};
  const bool there = find_row(launch, row, work, kept);
  work.span = blockIdx.x;
  work.owns = launch.appends && work.span == row.position / kSpanPositions;
  const bool works = there && work.span >= work.first_span && work.span < work.end_span;
  const int n_tiles = (shape.value_stride() - 8) / 16;
  typename Shape<kPlanes, kDim>::Head::Turn turn;
  const uint32_t keys = shared_address(shared), values = keys + launch.values_at;
  if (works) {
    uint64_t pages[kPagesASpan];
    find_pages(step, work, pages);
    const int64_t offset = step.page_offset + work.kv_head * step.layout.head_bytes;
    fetch<kPlanes, kDim>(work, pages, offset, shape.kept_key(), shape.key_stride(), keys);
    fetch<kPlanes, kDim>(work, pages, offset + step.layout.values_offset, shape.kept_value(), shape.value_stride(), values);
    load_turn(launch, work, kind_of(threadIdx.x / 32, work), turn);
    if (threadIdx.x == 0) kept.inbox.expect(inbox_bytes(work, n_tiles));
  }
  if (launch.reads_early) wait_for_previous();
  if (!works) {
    if (there && work.end_span <= work.first_span && work.span == 0) {  // it sees nothing
      for (int i = threadIdx.x; i < work.n_heads * shape.value_dim(); i += kDecodeThreads) {
        const int head = i / shape.value_dim();
        row_of<float>(launch.out, work.row)[kept.head[head] * shape.value_dim() + i - head * shape.value_dim()] = 0.0f;
      }
    }
    return;
  }
  take_row(shape, work, turn, shared, kept);
  wait_copies<0>();
  __syncthreads();
  float scores[4];
  score(shape, keys, keys + launch.queries_at, scores);
  auto* weights = reinterpret_cast<uint16_t*>(shared + launch.queries_at);
  const float2 largest = soften<kPlanes>(launch, work, scores, weights, kept);
  __syncthreads();
  weigh(shape, work, values, shared_address(weights), keys, largest, kept);
  kept.inbox.wait();
  merge_group(launch, work, reinterpret_cast<const float4*>(shared), n_tiles, kept);
  if (work.first_span / kSpansAGroup == (work.end_span - 1) / kSpansAGroup) return;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const auto last = static_cast<uint32_t>(work.end_span - work.first_span - 1);
    kept.is_last = atomicInc(pointer<uint32_t>(launch.tickets) + work.row.index * gridDim.y + work.place, last) == last;
  }
  __syncthreads();
  if (!kept.is_last) return;
  __threadfence();
  merge_groups(launch, work, reinterpret_cast<float*>(shared), kept);
}

}  // namespace
}  // namespace kvik::cuda

#define KVIK_DECODE(name, planes, dim, blocks)                                     \
  extern "C" __global__ void __launch_bounds__(kvik::cuda::kDecodeThreads, blocks) \
      name(const __grid_constant__ kvik::cuda::DecodeLaunch launch) {              \
    kvik::cuda::decode<planes, dim>(launch);                                       \
  }
KVIK_DECODE(decode_attend_1, 1, 0, 1)
KVIK_DECODE(decode_attend_1_64, 1, 64, 3)
KVIK_DECODE(decode_attend_1_128, 1, 128, 3)
KVIK_DECODE(decode_attend_2, 2, 0, 1)
