#pragma once

#include "kernels/cuda/decode.cuh"
#include "kernels/cuda/lane_of_head.cuh"

// What a block of a decode attention takes into shared memory: keys and values of its span, and heads of the row.
namespace kvik::cuda {

// Shapes that a kernel is compiled for: heads of kDim elements, both keys and values, or of any size up to the most.
template <int kPlanes, int kDim>
struct Shape {
  static constexpr int kMost = kDim > 0 ? kDim : decode_most_dim(kPlanes);
  using Head = LaneOfHead<kMost>;
  const DecodeLaunch& launch;
  __device__ __forceinline__ int key_stride() const { return kDim > 0 ? kDim + 8 : launch.key_stride; }
  __device__ __forceinline__ int value_stride() const { return kDim > 0 ? kDim + 8 : launch.value_stride; }
  __device__ __forceinline__ int kept_key() const { return kDim > 0 ? kDim : launch.step.layout.key_stride; }
  __device__ __forceinline__ int kept_value() const { return kDim > 0 ? kDim : launch.step.layout.value_stride; }
  __device__ __forceinline__ int key_dim() const { return kDim > 0 ? kDim : launch.step.layout.key_dim; }
  __device__ __forceinline__ int value_dim() const { return kDim > 0 ? kDim : launch.step.layout.value_dim; }
};

constexpr int kPagesASpan = kSpanPositions / kPagePositions;

// The pages of the span that the row sees; 0: none of a page.
__device__ __forceinline__ void find_pages(const Attend& step, const DecodeWork& work, uint64_t (&pages)[kPagesASpan]) {
  const auto* table = pointer<uint64_t>(step.pages.pages) + work.slot * step.pages.n_pages + work.span * kPagesASpan;
#pragma unroll
  for (int i = 0; i < kPagesASpan; ++i) {
    const int first = work.span * kSpanPositions + i * kPagePositions;
    pages[i] = first < work.visible.end && first + kPagePositions > work.visible.first ? __ldcg(table + i) : 0;
  }
}

// Keys or values of a span into shared memory; zeros for positions that nobody sees and for padding. The row's own position is left out.
template <int kPlanes, int kDim>
__device__ __forceinline__ void fetch(const DecodeWork& work, const uint64_t (&pages)[kPagesASpan], int64_t offset, int kept, int stride,
                                      uint32_t to) {
  const int pieces = kDim > 0 ? kDim / 8 : (stride - 8) / 8;  // even, so that all threads take equally many
  int position = threadIdx.x / pieces, piece = threadIdx.x - position * pieces;
  const int positions_ahead = kDecodeThreads / pieces, pieces_ahead = kDecodeThreads - positions_ahead * pieces;
  const int first = work.visible.first - work.span * kSpanPositions, end = work.visible.end - work.span * kSpanPositions;
  const int own = work.owns ? end - 1 : -1;  // behind the others
  if constexpr (kDim > 0) {                  // one plane; the page of a copy is known here
    const uint64_t place = offset + (position * kDim + piece * 8) * 2;
    const uint32_t at = to + (position * (kDim + 8) + piece * 8) * 2;
    const auto from = [&](int i) {
      const int ahead = i * positions_ahead;
      return reinterpret_cast<const void*>(pages[ahead / kPagePositions] + place + ahead % kPagePositions * kDim * 2);
    };
    if (first <= 0 && end >= kSpanPositions && own < 0) {
#pragma unroll
      for (int i = 0; i < kDim / 16; ++i) copy_async(at + i * positions_ahead * (kDim + 8) * 2, from(i), true);
    } else {
#pragma unroll
      for (int i = 0; i < kDim / 16; ++i) {
        const int here = position + i * positions_ahead;
        if (here != own) copy_async(at + i * positions_ahead * (kDim + 8) * 2, from(i), here >= first && here < end);
      }
    }
  } else {
#pragma unroll 2
    for (int i = 0; i < pieces / 2; ++i) {
      const int page = position / kPagePositions;
      const uint64_t base = page < 2 ? page == 0 ? pages[0] : pages[1] : page == 2 ? pages[2] : pages[3];
      const bool there = position >= first && position < end && piece * 8 < kept;
      const auto* from = reinterpret_cast<const uint16_t*>(base + offset) + position % kPagePositions * kept + piece * 8;
      if (position != own) {
#pragma unroll
        for (int plane = 0; plane < kPlanes; ++plane)
          copy_async(to + ((plane * kSpanPositions + position) * stride + piece * 8) * 2, from + plane * kPagePositions * kept, there);
      }
      position += positions_ahead, piece += pieces_ahead;
      if (piece >= pieces) piece -= pieces, ++position;
    }
  }
  commit_copies();
}

// The row of the block, its heads and what they see; not yet which spans are the block's. Returns whether the row is there.
__device__ __forceinline__ bool find_row(const DecodeLaunch& launch, Row& row, DecodeWork& work, DecodeShared& kept) {
  const Attend& step = launch.step;
  work.row = {&row, static_cast<int64_t>(blockIdx.z)};
  work.place = blockIdx.y, work.kv_head = work.place / launch.tiles_a_kv_head;
  const bool there = static_cast<int>(blockIdx.z) < min(__ldcg(pointer<int32_t>(step.rows.n_rows)), step.rows.most);
  if (threadIdx.x < sizeof(Row) / 4)
    reinterpret_cast<uint32_t*>(&row)[threadIdx.x] =
        __ldcg(reinterpret_cast<const uint32_t*>(pointer<Row>(step.rows.rows) + blockIdx.z) + threadIdx.x);
  const int32_t* first_heads = pointer<int32_t>(step.first_heads) + work.kv_head;
  work.first_head = __ldcg(first_heads) + work.place % launch.tiles_a_kv_head * kDecodeHeads;
  work.n_heads = max(0, min(kDecodeHeads, __ldcg(first_heads + 1) - work.first_head));
  if (threadIdx.x < work.n_heads) kept.head[threadIdx.x] = __ldcg(pointer<int32_t>(step.heads) + work.first_head + threadIdx.x);
  __syncthreads();
  work.visible = visible_keys(step.rule, row);
  work.first_span = work.visible.first / kSpanPositions, work.end_span = (work.visible.end + kSpanPositions - 1) / kSpanPositions;
  work.slot = step.rule.from_source ? row.source_slot : row.slot;
  return there;
}

// The heads of the row that the block's warps take: queries, then the key and the value that are appended.
enum class HeadKind : uint8_t { kQuery, kKey, kValue };
__device__ __forceinline__ HeadKind kind_of(int task, const DecodeWork& work) {
  return task < work.n_heads ? HeadKind::kQuery : task == work.n_heads ? HeadKind::kKey : HeadKind::kValue;
}
template <class Turn>
__device__ __forceinline__ void load_turn(const DecodeLaunch& launch, const DecodeWork& work, HeadKind kind, Turn& turn) {
  turn.n_pairs = 0;
  if (kind == HeadKind::kQuery) turn.load(launch.queries, work.row);
  if (kind == HeadKind::kKey) turn.load(launch.keys, work.row);
}

// q of the heads as f16, each with a power of two; and what is appended. `turn` is that of the warp's first head.
template <int kPlanes, int kDim>
__device__ __forceinline__ void take_row(const Shape<kPlanes, kDim>& shape, const DecodeWork& work,
                                         typename Shape<kPlanes, kDim>::Head::Turn& turn, unsigned char* shared, DecodeShared& kept) {
  const DecodeLaunch& launch = shape.launch;
  const int warp = threadIdx.x / 32, n_tasks = work.n_heads + (work.owns ? 2 : 0);
  const bool leads = work.place % launch.tiles_a_kv_head == 0;
#pragma unroll 1
  for (int task = warp; task < n_tasks; task += kDecodeWarps) {
    const HeadKind kind = kind_of(task, work);
    if (task != warp) load_turn(launch, work, kind, turn);
    const int n = kind == HeadKind::kValue ? shape.value_dim() : shape.key_dim();
    const int index = kind == HeadKind::kQuery ? kept.head[task] : work.kv_head;
    const float* x = kind == HeadKind::kQuery ? row_of<float>(launch.queries.there ? launch.queries.x : launch.step.q, work.row)
                     : kind == HeadKind::kKey ? row_of<float>(launch.keys.there ? launch.keys.x : launch.append.k, work.row)
                                              : row_of<float>(launch.append.v, work.row);
    typename Shape<kPlanes, kDim>::Head head;
    head.load(x + index * n, n, turn);
    const int stride = kind == HeadKind::kValue ? shape.value_stride() : shape.key_stride();
    uint16_t* to;
    int planes_apart;
    float factor = 1.0f;
    if (kind == HeadKind::kQuery) {
      if (launch.queries.there && work.owns) head.store(row_of<float>(launch.queries.out, work.row) + index * n, n);
      uint32_t largest = 0;
#pragma unroll
      for (const float value : head.values) largest = max(largest, bits_of(value) & 0x7fffffffu);
      const int32_t exponent = half_exponent(__reduce_max_sync(~0u, largest));
      factor = power_of_two(exponent);
      if (threadIdx.x % 32 == 0) kept.scale[task] = power_of_two(-exponent);
      to = reinterpret_cast<uint16_t*>(shared + launch.queries_at) + task * stride;
      planes_apart = kDecodeHeads * stride;
    } else {
      if (kind == HeadKind::kKey && launch.keys.there && leads) head.store(row_of<float>(launch.keys.out, work.row) + index * n, n);
      head.clip();
      if (leads) append_head<kPlanes>(launch.append, *work.row.row, work.slot, work.kv_head, kind == HeadKind::kValue, head);
      to = reinterpret_cast<uint16_t*>(shared + (kind == HeadKind::kValue ? launch.values_at : 0)) +
           work.row.row->position % kSpanPositions * stride;
      planes_apart = kSpanPositions * stride;
    }
    head.template each_half<kPlanes>(
        stride - 8, factor, [&](int d, uint16_t bits) { to[d] = bits; }, [&](int d, uint16_t bits) { to[planes_apart + d] = bits; });
  }
}

}  // namespace kvik::cuda
