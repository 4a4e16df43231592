#pragma once

#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/quick_ring.cuh"
#include "kernels/cuda/quick_rows.cuh"
#include "kernels/cuda/stream_results.cuh"

// The products of a decoder's layer for up to 8 rows, as stream.cuh has them, in as few instructions as possible: a kernel for each kind.
namespace kvik::cuda {

// Sums of a slice times 16 columns: rows 2t and 2t + 1, columns g and g + 8. `put(place, sum)` for the rows that there are.
template <int kRows, class Put>
__device__ __forceinline__ void each_sum(int most, const float (&sums)[4], Put put) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (kRows == 1 && i % 2 != 0) continue;
    if (2 * t + i % 2 < most) put((2 * t + i % 2) * 16 + g + i / 2 * 8, sums[i]);
  }
}

template <class U>
__device__ __forceinline__ void multiply_slice(const unsigned char* units, int n_units, uint32_t x_at, float (&sums)[1][1][4]) {
  const int lane = threadIdx.x % 32;
  const auto add = [&](int i) {
    U unit;
    take_unit(unit, units + i * U::kBytes, lane);
    add_unit<U, 1>(unit, x_at + i * U::kColumns * 2, 0, sums);
  };
  constexpr int kAtOnce = U::kColumns == 64 ? 2 : 4;  // enough to overlap loads, in few instructions
  int first = 0;
#pragma unroll 1
  for (; first + kAtOnce <= n_units; first += kAtOnce) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) add(first + i);
  }
#pragma unroll 1
  for (; first < n_units; ++first) add(first);
}

// One result of a product: scaled, shifted, written.
__device__ __forceinline__ float put_result(const QuickLaunch& launch, int row, int column, float sum, float x_scale) {
  float y = sum * x_scale;
  if (launch.weight_scales != Address::kNone) y = y * pointer<float>(launch.weight_scales)[column];
  if (launch.bias != Address::kNone) y = y + pointer<float>(launch.bias)[column];
  if (launch.residual.base != Address::kNone) y = y + __ldcg(row_at<float>(launch.residual, row) + column);
  row_at<float>(launch.out, row)[column] = y;
  return y;
}
// ... and what follows it.
template <QuickKind kKind>
__device__ __forceinline__ void put_results(const QuickLaunch& launch, int row, int column, float sum, float second, float added,
                                            QuickShared& kept) {
  const float scale = kept.scales[row];
  float y = put_result(launch, row, column, sum, scale);
  if constexpr (kKind == QuickKind::kGated) {
    const float z = put_result(launch, row, column + launch.n_tiles * 16, second, scale);
    y = y / (1.0f + exp_of(-y)) * z;
    row_at<float>(launch.sum_out, row)[column] = y;
  } else if (launch.added.base != Address::kNone) {
    y = y + added;
    row_at<float>(launch.sum_out, row)[column] = y;
  }
  if (launch.largest_out != Address::kNone) put_largest(&kept.block_largest[row], y);
}
__device__ __forceinline__ float added_at(const QuickLaunch& launch, int row, int column) {
  return launch.added.base != Address::kNone ? __ldcg(row_at<float>(launch.added, row) + column) : 0.0f;
}

// A warp's slices of the items before `end`, into shared memory: `sums` begins with those of item `first`.
template <QuickKind kKind, int kRows, class Ring, class RowsAt>
__device__ __forceinline__ void multiply_items(const QuickLaunch& launch, const QuickWork& work, Ring& ring, QuickCursor<kKind>& now,
                                               int first, int end, float* sums, const RowsAt& rows_at) {
  const int floats = kRows == 1 ? 16 : 16 << launch.row_shift, stride = now.size;
#pragma unroll 1
  while (now.item < end) {
    const int slice = now.matrix_slice(launch);
    const unsigned char* units = ring.wait();
    float slice_sums[1][1][4] = {};
    multiply_slice<typename Ring::U>(units, min(Ring::kUnits, launch.units_per_tile - slice * Ring::kUnits), rows_at(now, slice),
                                     slice_sums);
    ring.release();
    float* to = sums + ((now.item - first) * (kKind == QuickKind::kSplit ? kSlicesAGroup : stride) + now.slice) * floats;
    each_sum<kRows>(launch.most, slice_sums[0][0], [&](int place, float sum) { to[place] = sum; });
    now.skip(kQuickWarps, launch, work);
  }
}

// Whole tiles: sums of slices meet in shared memory, some items at a time.
template <QuickKind kKind, int kRows, class Ring>
__device__ __forceinline__ void multiply_tiles(const QuickLaunch& launch, const QuickWork& work, Ring& ring, QuickCursor<kKind>& now,
                                               uint32_t lane_rows, int n_rows, unsigned char* shared, QuickShared& kept) {
  const int shift = kRows == 1 ? 0 : launch.row_shift, floats = 16 << shift, n_slices = launch.n_slices, size = now.size,
            n_columns = kKind == QuickKind::kGated ? launch.n_tiles * 16 : launch.n;
  const auto row_of = [&](int i) { return i / 16 & ((1 << shift) - 1); };
  const auto column_of = [&](int i, int turn) { return (work.first + turn + (i / 16 >> shift)) * 16 + i % 16; };
  const int first_row = row_of(threadIdx.x), first_column = column_of(threadIdx.x, 0);
  float added = 0.0f;  // to a thread's first result: comes while the weights are multiplied
  if (first_row < launch.most && first_column < n_columns) added = added_at(launch, first_row, first_column);
  for (int turn = 0, n = 0; turn < work.n; turn += launch.items_per_turn, ++n) {
    const int end = min(turn + launch.items_per_turn, work.n);
    float* sums = reinterpret_cast<float*>(shared + launch.sums_at) + n % 2 * launch.items_per_turn * size * floats;
    multiply_items<kKind, kRows>(launch, work, ring, now, turn, end, sums,
                                 [&](const QuickCursor<kKind>&, int slice) { return lane_rows + slice * kSliceColumns * 2; });
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < (end - turn) * floats; i += kQuickThreads) {
      const int row = row_of(i), column = column_of(i, turn);
      if (row >= n_rows || column >= n_columns) continue;
      const float* from = sums + (i / 16 >> shift) * size * floats + (i & (floats - 1));
      const float sum = sum_slices(from, n_slices, floats);
      float second = 0.0f;
      if constexpr (kKind == QuickKind::kGated) second = sum_slices(from + n_slices * floats, n_slices, floats);
      const bool is_first = turn == 0 && i < kQuickThreads;
      put_results<kKind>(launch, row, column, sum, second, is_first ? added : added_at(launch, row, column), kept);
    }
  }
}

// Groups of slices: their sums go through memory, and the block that brings the last one of a tile adds them up.
template <int kRows, class Ring>
__device__ __forceinline__ void multiply_groups(const QuickLaunch& launch, const QuickWork& work, Ring& ring,
                                                QuickCursor<QuickKind::kSplit>& now, uint32_t lane_rows, int rest_at, int n_rows,
                                                unsigned char* shared, QuickShared& kept) {
  constexpr QuickKind kKind = QuickKind::kSplit;
  const int shift = kRows == 1 ? 0 : launch.row_shift, floats = 16 << shift,
            n_groups = (launch.n_slices + kSlicesAGroup - 1) / kSlicesAGroup, n_items = work.n + work.n_rest;
  auto* sums = reinterpret_cast<float*>(shared + launch.sums_at);
  multiply_items<kKind, kRows>(launch, work, ring, now, 0, n_items, sums, [&](const QuickCursor<kKind>& at, int) {
    const int column = at.item < work.n ? (at.group - work.group) * kGroupColumns : rest_at;
    return lane_rows + (column + at.slice * kSliceColumns) * 2;
  });
  const auto tile_of = [&](int item) {
    if (item >= work.n) return work.first_rest + item - work.n;
    int tile = work.tile + item;
    while (tile >= launch.n_tiles) tile -= launch.n_tiles;
    return tile;
  };
  const auto part_at = [&](int group, int tile) { return pointer<float>(launch.parts) + ((group * launch.n_tiles + tile) << shift) * 16; };
  __syncthreads();
  for (int i = threadIdx.x; i < n_items * floats; i += kQuickThreads) {
    const int item = i / 16 >> shift, in_tile = i & (floats - 1);
    const bool is_rest = item >= work.n;
    int group = is_rest ? n_groups - 1 : work.group;
    for (int tile = work.tile + item; !is_rest && tile >= launch.n_tiles; tile -= launch.n_tiles) ++group;
    const float sum = sum_group(sums + item * kSlicesAGroup * floats + in_tile, is_rest ? launch.rest_slices : kSlicesAGroup, floats);
    __stcg(part_at(group, tile_of(item)) + in_tile, sum);
  }
  __syncthreads();
  auto* is_last = reinterpret_cast<bool*>(shared + launch.rows_at);  // of items; the rows are done with
  const auto last = static_cast<uint32_t>(n_groups - 1);
  for (int i = threadIdx.x; i < n_items; i += kQuickThreads)
    is_last[i] = arrives_last(pointer<uint32_t>(launch.tickets) + tile_of(i), last);
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < n_items * floats; i += kQuickThreads) {
    const int item = i / 16 >> shift, row = i / 16 & ((1 << shift) - 1);
    if (!is_last[item] || row >= n_rows) continue;
    const int tile = tile_of(item), column = tile * 16 + i % 16;
    if (column >= launch.n) continue;
    const float added = added_at(launch, row, column);
    constexpr int kBatch = 8;
    float total = 0.0f;
#pragma unroll 1
    for (int first = 0; first < n_groups; first += kBatch) {
      float group[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j)
        group[j] = first + j < n_groups ? __ldcg(part_at(first + j, tile) + (i & (floats - 1))) : 0.0f;  // a zero changes no sum
#pragma unroll
      for (int j = 0; j < kBatch; ++j) total += group[j];
    }
    put_results<kKind>(launch, row, column, total, 0.0f, added, kept);
  }
}

// Arguments come from memory some at a time, each a wait of its own: all are asked for at once.
__device__ __forceinline__ void touch_arguments(const QuickLaunch& launch) {
  asm volatile("" ::"r"(launch.k), "r"(launch.row_stride), "l"(launch.x.base), "l"(launch.weight_scales), "l"(launch.x_scale.base),
               "l"(launch.sum_out.base), "l"(launch.largest_out), "l"(launch.tickets));
}

// kColumns: of one row, that a thread has.
template <WeightFormat kFormat, QuickKind kKind, int kRows, int kColumns>
__device__ __forceinline__ void multiply_quick(const QuickLaunch& launch) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ uint64_t barriers[kQuickWarps * kMostQuickSlots];
  __shared__ QuickShared kept;
  constexpr bool kSplit = kKind == QuickKind::kSplit, kNorms = kKind == QuickKind::kNormed || kKind == QuickKind::kGated;
  const QuickWork work(launch, kSplit);
  QuickCursor<kKind> now(launch, work);
  now.skip(threadIdx.x / 32, launch, work);
  QuickRing<kFormat, kKind> ring(launch, work, shared, barriers, now);
  start_next();
  touch_arguments(launch);
  if (threadIdx.x < kStreamRows) kept.block_largest[threadIdx.x] = 0;
  const int n_rows = min(*pointer<int32_t>(launch.n_rows), launch.most);  // nothing in a list of steps changes it
  auto* rows = reinterpret_cast<uint16_t*>(shared + launch.rows_at);
  const bool writes = blockIdx.x == gridDim.x - 1;  // it has the least to do
  const uint32_t lane_rows =
      shared_address(rows) + (min(static_cast<int>(threadIdx.x) % 8, launch.most - 1) * launch.row_stride + threadIdx.x % 32 / 8 * 8) * 2;
  if constexpr (kSplit) {
    const int end_group = work.n > 0 ? work.group + (work.tile + work.n - 1) / launch.n_tiles + 1 : work.group;
    const int rest_at = (end_group - work.group) * kGroupColumns, rest = launch.n_slices / kSlicesAGroup * kGroupColumns;
    constexpr int kQuads = kGroupColumns / 4;
    const int n_quads = (launch.k + 63) / 64 * 16;
    wait_for_previous();
    KnownRows<kRows> known(launch);
    if (work.n > 0) {
      known.take(rows, {work.group * kQuads, min((work.group + 1) * kQuads, n_quads), 0, work.tile == 0}, n_rows);
      known.take(rows, {(work.group + 1) * kQuads, min(end_group * kQuads, n_quads), kGroupColumns, true}, n_rows);
    }
    if (work.n_rest > 0) known.take(rows, {rest / 4, n_quads, rest_at, work.first_rest == 0}, n_rows);
    known.put_scales(n_rows, blockIdx.x == 0, kept);
    __syncthreads();
    multiply_groups<kRows>(launch, work, ring, now, lane_rows, rest_at, n_rows, shared, kept);
  } else {
    if constexpr (kRows == 1) {
      OneRow<kNorms, kColumns> row(launch, rows);
      wait_for_previous();
      row.take(writes && n_rows > 0, kept);
    } else {
      WarpRows<kNorms> warp_rows(launch, reinterpret_cast<float*>(shared + launch.gains_at));
      wait_for_previous();
      warp_rows.take(rows, n_rows, writes, kept);
    }
    __syncthreads();
    multiply_tiles<kKind, kRows>(launch, work, ring, now, lane_rows, n_rows, shared, kept);
  }
  if (launch.largest_out != Address::kNone) {
    __syncthreads();
    if (threadIdx.x < n_rows)
      __stcg(pointer<uint32_t>(launch.largest_out) + threadIdx.x * gridDim.x + blockIdx.x, kept.block_largest[threadIdx.x]);
  }
}

}  // namespace kvik::cuda

#define KVIK_QUICK_KIND(name, format, kind, rows, columns)                                                              \
  extern "C" __global__ void __launch_bounds__(kvik::cuda::kQuickThreads, 2)                                            \
      name(const __grid_constant__ kvik::cuda::QuickLaunch launch) {                                                    \
    kvik::cuda::multiply_quick<kvik::device::WeightFormat::format, kvik::cuda::QuickKind::kind, rows, columns>(launch); \
  }
#define KVIK_QUICK_ROWS(name, format, kind)                                        \
  KVIK_QUICK_KIND(name##_1, format, kind, 1, kvik::cuda::kQuickColumnsOfShort)     \
  KVIK_QUICK_KIND(name##_1_long, format, kind, 1, kvik::cuda::kQuickColumnsOfLong) \
  KVIK_QUICK_KIND(name##_8, format, kind, 8, 0)
#define KVIK_QUICK(name, format)                        \
  KVIK_QUICK_ROWS(name##_normed, format, kNormed)       \
  KVIK_QUICK_ROWS(name##_gated, format, kGated)         \
  KVIK_QUICK_ROWS(name##_converted, format, kConverted) \
  KVIK_QUICK_KIND(name##_split_1, format, kSplit, 1, 0) \
  KVIK_QUICK_KIND(name##_split_8, format, kSplit, 8, 0)
