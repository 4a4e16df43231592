#include "kernels/cuda/attend_rule.cuh"

// Attention, span by span: 16 queries (heads of a KV head, rows of a sequence) are the rows of an mma. Four warps score 32 positions each,
// then each takes a quarter of the dimensions of the values over all 128 positions.
namespace kvik::cuda {
namespace {

constexpr int kQueries = 16, kWarps = kAttendThreads / 32;

// What the block works on.
struct Work {
  RowGroup rows;
  int first_head, n_heads, n_queries, kv_head;
  int64_t slot;
  Visible visible;  // to any of its rows
};

// The 16 queries of a turn, and where their span is. In shared memory.
struct Turn {
  uint64_t pages[kSpanPositions / kPagePositions];
  float* part[kQueries];  // null: it sees nothing of the span
  int head[kQueries], position[kQueries];
  Visible visible[kQueries];
  float scale[kQueries];    // undoes the power of two of q
  float largest[kQueries];  // of this span
  float before[kQueries];   // of the spans before it in the part
  bool is_first[kQueries];  // nothing is in the part yet
};

// Keys or values of a span into shared memory; zeros for positions that nobody sees and for padding. A warp takes a page of positions:
// lanes have pieces of 8 elements, several positions at once if a position has few.
template <int kPlanes>
__device__ __noinline__ void fetch(const Attend& step, const Work& work, const Turn& turn, int span, bool values, int stride, uint32_t to) {
  static_assert(kWarps == kSpanPositions / kPagePositions);
  const KvLayout& layout = step.layout;
  const int kept = values ? layout.value_stride : layout.key_stride, pieces = (stride - 8) / 8, warp = threadIdx.x / 32,
            lane = threadIdx.x % 32;
  const int64_t offset = step.page_offset + work.kv_head * layout.head_bytes + (values ? layout.values_offset : 0);
  const int at_once = pieces >= 32 ? 1 : 32 / pieces, first = lane / pieces;  // positions
  const int first_key = span * kSpanPositions + warp * kPagePositions;
#pragma unroll 1
  for (int piece = pieces >= 32 ? lane : lane % pieces; piece < pieces && first < at_once; piece += 32) {
    const auto* from = reinterpret_cast<const uint16_t*>(turn.pages[warp] + offset) + piece * 8;
    const uint32_t line = to + (warp * kPagePositions * stride + piece * 8) * 2;
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
#pragma unroll 4
      for (int i = pieces >= 32 ? 0 : first; i < kPagePositions; i += at_once) {
        const bool there = first_key + i >= work.visible.first && first_key + i < work.visible.end && piece * 8 < kept;
        copy_async(line + (plane * kSpanPositions + i) * stride * 2, there ? from + (plane * kPagePositions + i) * kept : nullptr, there);
      }
    }
  }
  commit_copies();
}

// q of 16 queries as f16, each with a power of two.
template <int kPlanes>
__device__ __forceinline__ void load_queries(const Attend& step, const Work& work, int first_query, int span, int stride, uint16_t* to,
                                             Turn& turn) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll 1
  for (int i = warp; i < kQueries; i += kWarps) {
    const int query = first_query + i, n = step.layout.key_dim;
    const bool there = query < work.n_queries;
    const float* q = nullptr;
    uint32_t largest = 0;
    if (there) {
      const int index = work.rows.first_row + query / work.n_heads,
                head = pointer<int32_t>(step.heads)[work.first_head + query % work.n_heads];
      const Row& row = pointer<Row>(step.rows.rows)[index];
      q = row_of<float>(step.q, {&row, index}) + static_cast<int64_t>(head) * n;
#pragma unroll 4
      for (int d = lane; d < n; d += 32) largest = max(largest, bits_of(q[d]) & 0x7fffffffu);
      if (lane == 0) {
        const Visible visible = visible_keys(step.rule, row);
        const int part = span / step.parts.spans_a_part;
        const bool sees = span >= visible.first / kSpanPositions && span * kSpanPositions < visible.end;
        turn.head[i] = head, turn.position[i] = row.position, turn.visible[i] = visible;
        turn.part[i] = pointer<float>(step.parts.parts) +
                       ((static_cast<int64_t>(index) * step.n_heads + head) * step.parts.n_parts + part) * (2 + step.layout.value_dim);
        turn.is_first[i] = span == max(part * step.parts.spans_a_part, visible.first / kSpanPositions);
        turn.before[i] = turn.is_first[i] || !sees ? -infinity() : turn.part[i][0];
        if (!sees) turn.part[i] = nullptr;
      }
    } else if (lane == 0) {
      turn.part[i] = nullptr;
      turn.visible[i] = {0, 0};
    }
    largest = __reduce_max_sync(~0u, largest);
    const int32_t exponent = half_exponent(largest);
    const float factor = power_of_two(exponent);
    if (lane == 0) turn.scale[i] = power_of_two(-exponent);
#pragma unroll 4
    for (int d = lane; d < stride - 8; d += 32) {
      const float scaled = there && d < n ? q[d] * factor : 0.0f;
      const uint16_t high = half_bits(scaled);
      to[i * stride + d] = high;
      if constexpr (kPlanes == 2) to[(kQueries + i) * stride + d] = half_bits((scaled - half_value(high)) * kPlaneStep);
    }
  }
}

// q . k of 16 queries and 32 positions of a warp.
template <int kPlanes>
__device__ __forceinline__ void score(const AttendLaunch& launch, uint32_t keys, uint32_t queries, float* scores) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, stride = launch.key_stride;
  constexpr int kChains = kPlanes == 2 ? 3 : 1;
  float sums[kChains][4][4] = {};
  const uint32_t q_at = queries + (lane % 16 * stride + lane / 16 * 8) * 2;
  const uint32_t k_at = keys + ((warp * 32 + lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8) * 2;
#pragma unroll 2
  for (int d = 0; d < stride - 8; d += kStepColumns) {
    uint32_t q[kPlanes][4];
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) load_matrices(q[plane], q_at + (plane * kQueries * stride + d) * 2);
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      uint32_t k[4];
      load_matrices(k, k_at + (pair * 16 * stride + d) * 2);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        mma(sums[0][pair * 2 + j], q[0][0], q[0][1], q[0][2], q[0][3], k[j * 2], k[j * 2 + 1]);
        if constexpr (kPlanes == 2) mma(sums[2][pair * 2 + j], q[1][0], q[1][1], q[1][2], q[1][3], k[j * 2], k[j * 2 + 1]);
      }
      if constexpr (kPlanes == 2) {
        load_matrices(k, k_at + ((kSpanPositions + pair * 16) * stride + d) * 2);
#pragma unroll
        for (int j = 0; j < 2; ++j) mma(sums[1][pair * 2 + j], q[0][0], q[0][1], q[0][2], q[0][3], k[j * 2], k[j * 2 + 1]);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < 4; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float s = sums[0][j][i];
      if constexpr (kPlanes == 2) s = s + (sums[1][j][i] + sums[2][j][i]) * (1.0f / kPlaneStep);
      scores[(lane / 4 + i / 2 * 8) * kScoreStride + warp * 32 + j * 8 + lane % 4 * 2 + i % 2] = s;
    }
}

// Scores become weights in f16; zeros where a query does not look.
template <int kPlanes>
__device__ __forceinline__ void soften(const Attend& step, int span, const float* scores, uint16_t* weights, Turn& turn) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const AttendRule& rule = step.rule;
  const bool plain = is_plain(rule);
#pragma unroll 1
  for (int i = warp; i < kQueries; i += kWarps) {
    const Visible visible = turn.visible[i];
    if (turn.part[i] == nullptr) {
#pragma unroll
      for (int j = 0; j < kPlanes * kSpanPositions / 32; ++j) weights[(j / 4 * kQueries + i) * kWeightStride + lane + j % 4 * 32] = 0;
      if (lane == 0) turn.largest[i] = -infinity();
      continue;
    }
    float s[kSpanPositions / 32], largest = -infinity();
#pragma unroll
    for (int j = 0; j < kSpanPositions / 32; ++j) {
      const int key = span * kSpanPositions + lane + 32 * j;
      s[j] = -infinity();
      if (key < visible.first || key >= visible.end) continue;
      s[j] = scores[i * kScoreStride + lane + 32 * j] * turn.scale[i];
      s[j] = plain ? s[j] * step.rule.scale : ruled_score(step.rule, s[j], turn.head[i], turn.position[i], key);
      largest = s[j] > largest ? s[j] : largest;
    }
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
      const float other = __shfl_xor_sync(~0u, largest, half);
      largest = other > largest ? other : largest;
    }
    const float base = largest == -infinity() ? 0.0f : largest;
#pragma unroll
    for (int j = 0; j < kSpanPositions / 32; ++j) {
      const int key = span * kSpanPositions + lane + 32 * j;
      const float p = key < visible.first || key >= visible.end ? 0.0f : exp_of(s[j] - base) * kWeightScale;
      const uint16_t high = half_bits(p);
      weights[i * kWeightStride + lane + 32 * j] = high;
      if constexpr (kPlanes == 2) weights[(kQueries + i) * kWeightStride + lane + 32 * j] = half_bits((p - half_value(high)) * kPlaneStep);
    }
    if (lane == 0) turn.largest[i] = largest;
  }
}

template <int kPlanes>
__device__ __forceinline__ float joined(const float (&sums)[kPlanes == 2 ? 3 : 1][4], int i) {
  if constexpr (kPlanes == 2) return sums[0][i] + (sums[1][i] + sums[2][i]) * (1.0f / kPlaneStep);
  return sums[0][i];
}

// One number of a part: written, or merged with what earlier spans left.
__device__ __forceinline__ void put(float* at, float x, bool is_first, float a, float b) { *at = is_first ? x : fused(x, b, *at * a); }

// Weights times values, into the parts.
template <int kPlanes>
__device__ __forceinline__ void weigh(const AttendLaunch& launch, uint32_t values, uint32_t weights, const Turn& turn) {
  constexpr int kChains = kPlanes == 2 ? 3 : 1;
  const Attend& step = launch.step;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, stride = launch.value_stride;
  const uint32_t p_at = weights + (lane % 16 * kWeightStride + lane / 16 * 8) * 2;
  const uint32_t v_at = values + ((lane / 8 % 2 * 8 + lane % 8) * stride + lane / 16 * 8) * 2;
  float* parts[2];
  float a[2], b[2];
  bool is_first[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int i = g + r * 8;
    parts[r] = turn.part[i];
    is_first[r] = turn.is_first[i];
    const float before = turn.before[i], largest = turn.largest[i] > before ? turn.largest[i] : before;
    a[r] = part_weight(before, largest);
    b[r] = part_weight(turn.largest[i], largest);
  }
#pragma unroll 1
  for (int d = warp * 16; d < stride - 8; d += kWarps * 16) {
    float sums[2][kChains][4] = {};
#pragma unroll
    for (int k = 0; k < kSpanPositions; k += kStepColumns) {
      uint32_t p[4], v[4];
      load_matrices(p, p_at + k * 2);
      load_matrices_transposed(v, v_at + (k * stride + d) * 2);
#pragma unroll
      for (int j = 0; j < 2; ++j) mma(sums[j][0], p[0], p[1], p[2], p[3], v[j * 2], v[j * 2 + 1]);
      if constexpr (kPlanes == 2) {
        uint32_t low[4];
        load_matrices(low, p_at + (kQueries * kWeightStride + k) * 2);
#pragma unroll
        for (int j = 0; j < 2; ++j) mma(sums[j][2], low[0], low[1], low[2], low[3], v[j * 2], v[j * 2 + 1]);
        load_matrices_transposed(low, v_at + ((kSpanPositions + k) * stride + d) * 2);
#pragma unroll
        for (int j = 0; j < 2; ++j) mma(sums[j][1], p[0], p[1], p[2], p[3], low[j * 2], low[j * 2 + 1]);
      }
    }
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int dim = d + j * 8 + t * 2 + i % 2, r = i / 2;
        if (parts[r] != nullptr && dim < step.layout.value_dim)
          put(parts[r] + 2 + dim, joined<kPlanes>(sums[j], i), is_first[r], a[r], b[r]);
      }
  }
  if (warp != 0) return;
  constexpr uint32_t kOnes = 0x3c003c00u;
  float sums[2][4] = {};
#pragma unroll
  for (int k = 0; k < kSpanPositions; k += kStepColumns) {
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
      uint32_t p[4];
      load_matrices(p, p_at + (plane * kQueries * kWeightStride + k) * 2);
      mma(sums[plane], p[0], p[1], p[2], p[3], kOnes, kOnes);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (parts[r] == nullptr || t != 0) continue;
    float sum = sums[0][r * 2];
    if constexpr (kPlanes == 2) sum = sum + sums[1][r * 2] * (1.0f / kPlaneStep);
    put(parts[r] + 1, sum, is_first[r], a[r], b[r]);
    const float before = turn.before[g + r * 8], largest = turn.largest[g + r * 8];
    parts[r][0] = largest > before ? largest : before;
  }
}

template <int kPlanes>
__device__ __forceinline__ void attend_span(const AttendLaunch& launch, const Work& work, int span, unsigned char* shared, Turn& turn) {
  const Attend& step = launch.step;
  const uint32_t keys = shared_address(shared), values = keys + launch.values_at;
  auto* queries = reinterpret_cast<uint16_t*>(shared + launch.queries_at);
  auto* scores = reinterpret_cast<float*>(shared + launch.scores_at);
  auto* weights = reinterpret_cast<uint16_t*>(shared + launch.weights_at);
  __syncthreads();  // the span before is done with
  if (threadIdx.x < kSpanPositions / kPagePositions) {
    const int first = span * kSpanPositions + threadIdx.x * kPagePositions;
    const bool there = first < work.visible.end && first + kPagePositions > work.visible.first;
    const auto* pages = pointer<uint64_t>(step.pages.pages) + work.slot * step.pages.n_pages;
    turn.pages[threadIdx.x] = there ? pages[first / kPagePositions] : 0;
  }
  __syncthreads();
  if (launch.keeps_both) {
    fetch<kPlanes>(step, work, turn, span, false, launch.key_stride, keys);
    fetch<kPlanes>(step, work, turn, span, true, launch.value_stride, values);
  }
#pragma unroll 1
  for (int first_query = 0; first_query < work.n_queries; first_query += kQueries) {
    __syncthreads();  // the queries before are done with
    if (!launch.keeps_both) fetch<kPlanes>(step, work, turn, span, false, launch.key_stride, keys);
    load_queries<kPlanes>(step, work, first_query, span, launch.key_stride, queries, turn);
    if (launch.keeps_both)
      wait_copies<1>();
    else
      wait_copies<0>();
    __syncthreads();
    score<kPlanes>(launch, keys, shared_address(queries), scores);
    __syncthreads();
    if (!launch.keeps_both) fetch<kPlanes>(step, work, turn, span, true, launch.value_stride, values);
    soften<kPlanes>(step, span, scores, weights, turn);
    wait_copies<0>();
    __syncthreads();
    weigh<kPlanes>(launch, values, shared_address(weights), turn);
  }
}

template <int kPlanes>
__device__ __forceinline__ void attend(const AttendLaunch& argument) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ Turn turn;
  __shared__ __align__(16) unsigned char kept[sizeof(AttendLaunch)];  // arguments of a kernel are slow to read through pointers
  start_next();
  for (int i = threadIdx.x; i < static_cast<int>(sizeof(AttendLaunch) / 4); i += kAttendThreads)
    reinterpret_cast<uint32_t*>(kept)[i] = reinterpret_cast<const uint32_t*>(&argument)[i];
  __syncthreads();
  const auto& launch = *reinterpret_cast<const AttendLaunch*>(kept);
  wait_for_previous();
  const Attend& step = launch.step;
  const int n_groups = min(*pointer<int32_t>(step.groups.n_groups), step.groups.most);
  for (int group = blockIdx.x; group < n_groups; group += gridDim.x) {
    Work work{};
    work.rows = pointer<RowGroup>(step.groups.groups)[group];
    work.kv_head = blockIdx.y;
    work.first_head = pointer<int32_t>(step.first_heads)[work.kv_head];
    work.n_heads = pointer<int32_t>(step.first_heads)[work.kv_head + 1] - work.first_head;
    work.n_queries = work.rows.n_rows * work.n_heads;
    const Row* rows = pointer<Row>(step.rows.rows) + work.rows.first_row;
    work.slot = step.rule.from_source ? rows[0].source_slot : rows[0].slot;
    work.visible = {visible_keys(step.rule, rows[0]).first, visible_keys(step.rule, rows[work.rows.n_rows - 1]).end};
    const int positions = kSpanPositions * step.parts.spans_a_part;
    const int end_part = (work.visible.end + positions - 1) / positions;
    for (int part = work.visible.first / positions + static_cast<int>(blockIdx.z); part < end_part; part += launch.n_splits) {
      const int first = max(part * step.parts.spans_a_part, work.visible.first / kSpanPositions);
      const int end = min((part + 1) * step.parts.spans_a_part, (work.visible.end + kSpanPositions - 1) / kSpanPositions);
      for (int span = first; span < end; ++span) attend_span<kPlanes>(launch, work, span, shared, turn);
    }
  }
}

}  // namespace
}  // namespace kvik::cuda

extern "C" __global__ void __launch_bounds__(kvik::cuda::kAttendThreads, 4)
    attend_1(const __grid_constant__ kvik::cuda::AttendLaunch launch) {
  kvik::cuda::attend<1>(launch);
}
extern "C" __global__ void __launch_bounds__(kvik::cuda::kAttendThreads, 3)
    attend_2(const __grid_constant__ kvik::cuda::AttendLaunch launch) {
  kvik::cuda::attend<2>(launch);
}
