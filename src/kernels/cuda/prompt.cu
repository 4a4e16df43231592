#include "kernels/cuda/cache_steps.cuh"

// Attention of rows that follow one another in a sequence: 64 queries (rows times heads of a KV head) per block read keys and values
// together. A warp has 16 queries; scores, weights and sums of a span stay in its registers, and so do the sums of the part so far.
namespace kvik::cuda {
namespace {

constexpr int kWarps = kPromptThreads / 32, kSteps = kSpanPositions / kStepColumns;

struct Work {
  int group_row, n_heads, first_head, n_queries, first_query, kv_head;  // first_query: of the group's
  int64_t slot;
  Visible visible;  // to any of its rows
};

struct Query {
  int index, head;  // of the row; -1: there is none, and it sees nothing
  Visible visible;
  float scale;  // undoes the power of two of q
};

// Keys or values of a span into shared memory; zeros for positions that nobody sees and for padding. A warp takes a page.
template <int kDim>
__device__ __forceinline__ void fetch(uint64_t from, int stride, int first_key, const Visible& visible, uint32_t to) {
  static_assert(kWarps == kSpanPositions / kPagePositions);
  constexpr int kPieces = kDim / 8, kAtOnce = 32 / kPieces;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, piece = lane % kPieces, first = lane / kPieces;
  const uint64_t source = from + piece * 16;
  const uint32_t target = to + (warp * kPagePositions * prompt_stride(kDim) + piece * 8) * 2;
#pragma unroll 4
  for (int i = first; i < kPagePositions; i += kAtOnce) {
    const int key = first_key + warp * kPagePositions + i;
    const bool there = key >= visible.first && key < visible.end && piece * 8 < stride;
    copy_async(target + i * prompt_stride(kDim) * 2, reinterpret_cast<const void*>(there ? source + i * stride * 2 : 0), there);
  }
}

// The page of a span that this warp copies.
__device__ __forceinline__ uint64_t page_at(const Attend& step, const Work& work, int span) {
  const int first = span * kSpanPositions + static_cast<int>(threadIdx.x) / 32 * kPagePositions;
  if (first >= work.visible.end || first + kPagePositions <= work.visible.first) return 0;
  return pointer<uint64_t>(step.pages.pages)[work.slot * step.pages.n_pages + first / kPagePositions] + step.page_offset +
         work.kv_head * step.layout.head_bytes;
}

// q of the warp's queries as f16, each with a power of two. Loads of several are in flight.
template <int kDim>
__device__ __forceinline__ void load_queries(const Attend& step, const Work& work, uint16_t* to, Query* queries) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = step.layout.key_dim;
  const int query = work.first_query + warp * 16 + lane % 16;
  const bool there = query < work.n_queries;
  const int index = there ? work.group_row + query / work.n_heads : -1;
  const int head = there ? pointer<int32_t>(step.heads)[work.first_head + query % work.n_heads] : 0;
  Visible visible{0, 0};
  if (there) visible = visible_keys(step.rule, pointer<Row>(step.rows.rows)[index]);
  constexpr int kBatch = 8;
  float scale = 1.0f;  // of the query of this lane
#pragma unroll
  for (int first = 0; first < 16; first += kBatch) {
    float q[kBatch][kDim / 32];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int its_index = __shfl_sync(~0u, index, first + i), its_head = __shfl_sync(~0u, head, first + i);
      const float* from = pointer<float>(step.q.base, its_index * step.q.stride) + static_cast<int64_t>(its_head) * n;
#pragma unroll
      for (int k = 0; k < kDim / 32; ++k) q[i][k] = its_index >= 0 && lane + 32 * k < n ? from[lane + 32 * k] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      uint32_t largest = 0;
#pragma unroll
      for (int k = 0; k < kDim / 32; ++k) largest = max(largest, bits_of(q[i][k]) & 0x7fffffffu);
      const int32_t exponent = half_exponent(__reduce_max_sync(~0u, largest));
      const float factor = power_of_two(exponent);
      if (lane == first + i) scale = power_of_two(-exponent);
#pragma unroll
      for (int k = 0; k < kDim / 32; ++k) to[(warp * 16 + first + i) * prompt_stride(kDim) + lane + 32 * k] = half_bits(q[i][k] * factor);
    }
  }
  if (lane < 16) queries[warp * 16 + lane] = {index, head, visible, scale};
  __syncwarp();
}

// q . k of 16 queries and the positions of a span.
template <int kDim>
__device__ __forceinline__ void score(uint32_t keys, uint32_t queries, float (&s)[2 * kSteps][4]) {
  const int lane = threadIdx.x % 32;
  constexpr int kStride = prompt_stride(kDim);
  const uint32_t q_at = queries + (lane % 16 * kStride + lane / 16 * 8) * 2;
  const uint32_t k_at = keys + ((lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8) * 2;
#pragma unroll
  for (int j = 0; j < 2 * kSteps; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) s[j][i] = 0.0f;
#pragma unroll 2
  for (int d = 0; d < kDim; d += kStepColumns) {
    uint32_t q[4];
    load_matrices(q, q_at + d * 2);
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
      uint32_t k[4];
      load_matrices(k, k_at + (j * 16 * kStride + d) * 2);
      mma(s[j * 2], q[0], q[1], q[2], q[3], k[0], k[1]);
      mma(s[j * 2 + 1], q[0], q[1], q[2], q[3], k[2], k[3]);
    }
  }
}

__device__ __forceinline__ uint32_t two_halves(float low, float high) {
  const __half2 halves = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&halves);
}

// Scores become weights in f16, as fragments of an mma's rows. Queries g and g + 8 are this lane's. kAll: each sees every position.
template <bool kAll>
__device__ __forceinline__ void soften(float rule_scale, int first_key, const Query (&queries)[2], float (&s)[2 * kSteps][4],
                                       uint32_t (&p)[kSteps][4], float (&largest)[2]) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int first = queries[r].visible.first - first_key - t * 2, end = queries[r].visible.end - first_key - t * 2;
    const float scale = queries[r].scale;
    largest[r] = -infinity();
#pragma unroll
    for (int j = 0; j < 2 * kSteps; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& x = s[j][r * 2 + c];
        x = x * scale;
        x = x * rule_scale;
        if (!kAll && (j * 8 + c < first || j * 8 + c >= end)) x = -infinity();
        largest[r] = fmaxf(largest[r], x);  // NaN is not the largest
      }
#pragma unroll
    for (int half = 2; half > 0; half /= 2) largest[r] = fmaxf(largest[r], __shfl_xor_sync(~0u, largest[r], half));
    const float base = largest[r] == -infinity() ? 0.0f : largest[r];
#pragma unroll
    for (int j = 0; j < 2 * kSteps; ++j) {
      float weight[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        weight[c] = exp_of_negative(s[j][r * 2 + c] - base) * kWeightScale;
        if (!kAll && (j * 8 + c < first || j * 8 + c >= end)) weight[c] = 0.0f;
      }
      p[j / 2][j % 2 * 2 + r] = two_halves(weight[0], weight[1]);
    }
  }
}

// The sums of a part for queries g and g + 8.
template <int kDim>
struct Part {
  float largest[2], sum[2], values[kDim / 8][4];
  bool is_there[2];
};

// Weights times values of a span, merged into the part.
template <int kDim>
__device__ __forceinline__ void weigh(uint32_t values, const uint32_t (&p)[kSteps][4], const float (&largest)[2], const bool (&sees)[2],
                                      Part<kDim>& part) {
  const int lane = threadIdx.x % 32;
  constexpr int kStride = prompt_stride(kDim);
  constexpr uint32_t kOnes = 0x3c003c00u;
  const uint32_t v_at = values + ((lane / 8 % 2 * 8 + lane % 8) * kStride + lane / 16 * 8) * 2;
  float a[2], b[2];
  float ones[4] = {};
#pragma unroll
  for (int k = 0; k < kSteps; ++k) mma(ones, p[k][0], p[k][1], p[k][2], p[k][3], kOnes, kOnes);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float before = part.largest[r], all = largest[r] > before ? largest[r] : before;
    a[r] = part_weight(before, all), b[r] = part_weight(largest[r], all);
    if (!sees[r]) continue;
    part.largest[r] = part.is_there[r] ? all : largest[r];
    part.sum[r] = part.is_there[r] ? fused(ones[r * 2], b[r], part.sum[r] * a[r]) : ones[r * 2];
  }
  constexpr int kAtOnce = 2;  // times 16 dimensions: chains that the tensor cores work on
#pragma unroll
  for (int d = 0; d < kDim / 16; d += kAtOnce) {
    float sums[kAtOnce * 2][4] = {};
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        uint32_t v[4];
        load_matrices_transposed(v, v_at + (k * 16 * kStride + (d + i) * 16) * 2);
        mma(sums[i * 2], p[k][0], p[k][1], p[k][2], p[k][3], v[0], v[1]);
        mma(sums[i * 2 + 1], p[k][0], p[k][1], p[k][2], p[k][3], v[2], v[3]);
      }
    }
#pragma unroll
    for (int j = 0; j < kAtOnce * 2; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = i / 2;
        float& into = part.values[d * 2 + j][i];
        const float merged = part.is_there[r] ? fused(sums[j][i], b[r], into * a[r]) : sums[j][i];
        into = sees[r] ? merged : into;
      }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) part.is_there[r] = part.is_there[r] || sees[r];
}

template <int kDim>
__device__ __forceinline__ void write_part(const Attend& step, const Query* queries, int index, const Part<kDim>& part) {
  const int t = threadIdx.x % 4, value_dim = step.layout.value_dim;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (!part.is_there[r]) continue;
    const Query& query = queries[r * 8];
    float* to = pointer<float>(step.parts.parts) +
                ((static_cast<int64_t>(query.index) * step.n_heads + query.head) * step.parts.n_parts + index) * (2 + value_dim);
    if (t == 0) to[0] = part.largest[r], to[1] = part.sum[r];
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c)
        if (j * 8 + t * 2 + c < value_dim) to[2 + j * 8 + t * 2 + c] = part.values[j][r * 2 + c];
  }
}

template <int kDim>
__device__ __forceinline__ void attend_part(const Attend& step, const Work& work, int index, uint32_t shared, const Query* all_queries) {
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
  constexpr int kTileBytes = kSpanPositions * prompt_stride(kDim) * 2;
  const uint32_t keys = shared, values = keys + kTileBytes, queries_at = values + kTileBytes + warp * 16 * prompt_stride(kDim) * 2;
  const int first = max(index * step.parts.spans_a_part, work.visible.first / kSpanPositions);
  const int end = min((index + 1) * step.parts.spans_a_part, (work.visible.end + kSpanPositions - 1) / kSpanPositions);
  const int key_stride = step.layout.key_stride, value_stride = step.layout.value_stride;
  const Query queries[2] = {all_queries[warp * 16 + g], all_queries[warp * 16 + g + 8]};
  uint64_t page = page_at(step, work, first);
  fetch<kDim>(page, key_stride, first * kSpanPositions, work.visible, keys);
  commit_copies();
  fetch<kDim>(page + step.layout.values_offset, value_stride, first * kSpanPositions, work.visible, values);
  commit_copies();
  Part<kDim> part;
  part.is_there[0] = part.is_there[1] = false;
  part.largest[0] = part.largest[1] = -infinity();
#pragma unroll 1
  for (int span = first; span < end; ++span) {
    const bool more = span + 1 < end;
    if (more) page = page_at(step, work, span + 1);
    uint32_t p[kSteps][4];
    float largest[2];
    wait_copies<1>();
    __syncthreads();
    {
      float s[2 * kSteps][4];
      score<kDim>(keys, queries_at, s);
      __syncthreads();  // the keys are done with
      if (more) fetch<kDim>(page, key_stride, (span + 1) * kSpanPositions, work.visible, keys);
      commit_copies();
      const int first_key = span * kSpanPositions;
      const bool sees_all = queries[0].visible.first <= first_key && queries[0].visible.end >= first_key + kSpanPositions &&
                            queries[1].visible.first <= first_key && queries[1].visible.end >= first_key + kSpanPositions;
      if (__all_sync(~0u, sees_all))
        soften<true>(step.rule.scale, first_key, queries, s, p, largest);
      else
        soften<false>(step.rule.scale, first_key, queries, s, p, largest);
    }
    wait_copies<1>();
    __syncthreads();
    bool sees[2];
#pragma unroll
    for (int r = 0; r < 2; ++r)
      sees[r] = span >= queries[r].visible.first / kSpanPositions && span * kSpanPositions < queries[r].visible.end;
    weigh<kDim>(values, p, largest, sees, part);
    __syncthreads();  // the values are done with
    if (more) fetch<kDim>(page + step.layout.values_offset, value_stride, (span + 1) * kSpanPositions, work.visible, values);
    commit_copies();
  }
  write_part<kDim>(step, all_queries + warp * 16 + g, index, part);
}

template <int kDim>
__device__ __forceinline__ void attend_prompt(const PromptLaunch& launch) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ Query queries[kPromptQueries];
  start_next();
  wait_for_previous();
  const Attend& step = launch.step;
  const int n_groups = min(*pointer<int32_t>(step.groups.n_groups), step.groups.most), n_kv_heads = step.layout.n_heads;
  const int n_items = n_groups * launch.chunks_per_group * n_kv_heads * launch.n_splits;
  constexpr int kQueriesAt = 2 * kSpanPositions * prompt_stride(kDim) * 2;
  for (int item = blockIdx.x; item < n_items; item += gridDim.x) {
    int rest = item;
    const int split = rest % launch.n_splits;
    rest /= launch.n_splits;
    Work work{};
    work.kv_head = rest % n_kv_heads;
    rest /= n_kv_heads;
    const int chunk = rest % launch.chunks_per_group, group = n_groups - 1 - rest / launch.chunks_per_group;  // the longest first
    const RowGroup rows = pointer<RowGroup>(step.groups.groups)[group];
    work.group_row = rows.first_row;
    work.first_head = pointer<int32_t>(step.first_heads)[work.kv_head];
    work.n_heads = pointer<int32_t>(step.first_heads)[work.kv_head + 1] - work.first_head;
    work.n_queries = rows.n_rows * work.n_heads;
    work.first_query = chunk * kPromptQueries;
    if (work.first_query >= work.n_queries) continue;
    const Row* all = pointer<Row>(step.rows.rows) + rows.first_row;
    const Row& first = all[work.first_query / work.n_heads];
    const Row& last = all[(min(work.first_query + kPromptQueries, work.n_queries) - 1) / work.n_heads];
    work.slot = step.rule.from_source ? first.source_slot : first.slot;
    work.visible = {visible_keys(step.rule, first).first, visible_keys(step.rule, last).end};
    const int positions = kSpanPositions * step.parts.spans_a_part, end_part = (work.visible.end + positions - 1) / positions;
    int part = work.visible.first / positions + split;
    if (part >= end_part) continue;
    __syncthreads();  // the item before is done with
    load_queries<kDim>(step, work, reinterpret_cast<uint16_t*>(shared + kQueriesAt), queries);
    for (; part < end_part; part += launch.n_splits) attend_part<kDim>(step, work, part, shared_address(shared), queries);
  }
}

}  // namespace
}  // namespace kvik::cuda

extern "C" __global__ void __launch_bounds__(kvik::cuda::kPromptThreads, 2)
    prompt_64(const __grid_constant__ kvik::cuda::PromptLaunch launch) {
  kvik::cuda::attend_prompt<64>(launch);
}
extern "C" __global__ void __launch_bounds__(kvik::cuda::kPromptThreads, 2)
    prompt_128(const __grid_constant__ kvik::cuda::PromptLaunch launch) {
  kvik::cuda::attend_prompt<128>(launch);
}
