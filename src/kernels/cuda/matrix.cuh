#pragma once

#include "kernels/cuda/unit_formats.cuh"

// Products of up to 64 rows with packed weights. Weights go from memory straight into registers, a slice of them ahead; rows go through
// shared memory, slice by slice. A warp has one tile of 16 columns, so that all sums over k stay in its registers, in the order of order.h.
namespace kvik::cuda {

// Units that a lane keeps in flight: enough to hide memory, few enough to spill nothing.
template <WeightFormat kFormat, int kRowGroups>
constexpr int kUnitsAhead = kFormat == WeightFormat::kF32 || kFormat == WeightFormat::kQ4Zero ||
                                    (kFormat == WeightFormat::kQ4 && kRowGroups > 2)
                                ? 4
                                : 8;

struct MatrixPlace {
  int warp, lane, g, t, tile, first_row;
};

// y = sum * scales (+ bias) (+ residual). The results of a warp go through its shared memory, kRowGroups * 128 floats, so that neighboring
// lanes write neighboring columns.
template <int kRowGroups>
__device__ __forceinline__ void write_results(const Matrix& step, const MatrixPlace& at, int n_rows, const float (&total)[kRowGroups][4],
                                              float* shared) {
#pragma unroll
  for (int j = 0; j < kRowGroups; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) shared[(j * 8 + at.t * 2 + i % 2) * 16 + at.g + i / 2 * 8] = total[j][i];
  __syncwarp();
  const int n = at.tile * 16 + at.lane % 16;
  if (n < step.weights.n) {
    const float scale = step.weights.scales != Address::kNone ? pointer<float>(step.weights.scales)[n] : 1.0f;
    const float bias = step.bias != Address::kNone ? pointer<float>(step.bias)[n] : 0.0f;
    constexpr int kBatch = 4 * (kRowGroups < 2 ? 1 : 2);  // rows whose operands are in flight
#pragma unroll 1
    for (int base = at.lane / 16; base < kRowGroups * 8 && at.first_row + base < n_rows; base += 2 * kBatch) {
      float x_scale[kBatch], residual[kBatch];
      float* out[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const int m = at.first_row + base + 2 * k;
        const int row = step.parts == 1 ? m : m / step.parts, part = step.parts == 1 ? 0 : m % step.parts;
        out[k] = nullptr;
        if (m >= n_rows || !is_selected(step.selection, row)) continue;
        const int64_t column = static_cast<int64_t>(part) * step.weights.n + n;
        x_scale[k] = pointer<float>(step.scale.base, row * step.scale.stride)[part];
        residual[k] = step.residual.base != Address::kNone ? pointer<float>(step.residual.base, row * step.residual.stride)[column] : 0.0f;
        out[k] = pointer<float>(step.out.base, row * step.out.stride) + column;
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        if (out[k] == nullptr) continue;
        float y = shared[(base + 2 * k) * 16 + at.lane % 16] * x_scale[k];
        if (step.weights.scales != Address::kNone) y = y * scale;
        if (step.bias != Address::kNone) y = y + bias;
        if (step.residual.base != Address::kNone) y = y + residual[k];
        *out[k] = y;
      }
    }
  }
  __syncwarp();
}

// Sums of a tile and row group in `parts`, by slice or by group: one float4 per lane and 8 rows.
template <int kRowGroups>
__device__ __forceinline__ float4* part_of(const MatrixLaunch& launch, const MatrixPlace& at, int index) {
  const int64_t n_tiles = (launch.step.weights.n + 15) / 16;
  return pointer<float4>(launch.parts) + ((static_cast<int64_t>(index) * gridDim.z + blockIdx.z) * n_tiles + at.tile) * (kRowGroups * 32) +
         at.lane;
}
template <int kRowGroups>
__device__ __forceinline__ void write_part(const MatrixLaunch& launch, const MatrixPlace& at, int index,
                                           const float (&sum)[kRowGroups][4]) {
  float4* part = part_of<kRowGroups>(launch, at, index);
#pragma unroll
  for (int j = 0; j < kRowGroups; ++j) __stcg(part + j * 32, make_float4(sum[j][0], sum[j][1], sum[j][2], sum[j][3]));
}

// Adds up what all blocks of a tile left: slices into groups, groups into the total.
template <int kRowGroups>
__device__ __forceinline__ void sum_parts(const MatrixLaunch& launch, const MatrixPlace& at, int n_slices, float (&total)[kRowGroups][4]) {
  const int per_group = launch.keeps_slices ? kGroupColumns / kSliceColumns : 1;
  const int n_parts = launch.keeps_slices ? n_slices : (n_slices * kSliceColumns + kGroupColumns - 1) / kGroupColumns;
  constexpr int kBatch = 8;  // parts in flight
#pragma unroll
  for (int j = 0; j < kRowGroups; ++j) {
    float4 sum = make_float4(0, 0, 0, 0), group = make_float4(0, 0, 0, 0);
#pragma unroll 1
    for (int base = 0; base < n_parts; base += kBatch) {
      float4 part[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) part[k] = __ldcg(part_of<kRowGroups>(launch, at, min(base + k, n_parts - 1)) + j * 32);
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const int i = base + k;
        if (i >= n_parts) continue;
        group.x += part[k].x, group.y += part[k].y, group.z += part[k].z, group.w += part[k].w;
        if ((i + 1) % per_group == 0 || i + 1 == n_parts) {
          sum.x += group.x, sum.y += group.y, sum.z += group.z, sum.w += group.w;
          group = make_float4(0, 0, 0, 0);
        }
      }
    }
    total[j][0] = sum.x, total[j][1] = sum.y, total[j][2] = sum.z, total[j][3] = sum.w;
  }
}

template <int kRowGroups>
__device__ __forceinline__ void add_and_clear(float (&to)[kRowGroups][4], float (&from)[kRowGroups][4]) {
#pragma unroll
  for (int j = 0; j < kRowGroups; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) to[j][i] += from[j][i], from[j][i] = 0.0f;
}

// One unit times rows in shared memory, whose groups of 8 are `group_bytes` apart and, in two planes, follow one another. The sums are
// high.high, high.low and low.high.
template <class U, int kRowGroups>
__device__ __forceinline__ void add_unit(const U& unit, uint32_t x_at, int group_bytes,
                                         float (&sums)[U::kPlanes == 2 ? 3 : 1][kRowGroups][4]) {
#pragma unroll
  for (int block = 0; block < U::kColumns / kBlockColumns; ++block) {
    const uint4 a = unit.fragment(block * 2), b = unit.fragment(block * 2 + 1);
    uint4 a_low, b_low;
    if constexpr (U::kPlanes == 2) a_low = unit.fragment(0, 1), b_low = unit.fragment(1, 1);
    float2 scales;
    if constexpr (U::kBlocks) scales = unit.block_scales(block);
#pragma unroll
    for (int j = 0; j < kRowGroups; ++j) {
      uint32_t x[4];
      load_matrices(x, x_at + j * group_bytes + block * kBlockColumns * 2);
      if constexpr (U::kBlocks) {
        float c[4] = {0, 0, 0, 0};
        mma(c, a.x, a.y, a.z, a.w, x[0], x[1]);
        mma(c, b.x, b.y, b.z, b.w, x[2], x[3]);
        sums[0][j][0] = fused(scales.x, c[0], sums[0][j][0]);
        sums[0][j][1] = fused(scales.x, c[1], sums[0][j][1]);
        sums[0][j][2] = fused(scales.y, c[2], sums[0][j][2]);
        sums[0][j][3] = fused(scales.y, c[3], sums[0][j][3]);
      } else {
        mma(sums[0][j], a.x, a.y, a.z, a.w, x[0], x[1]);
        mma(sums[0][j], b.x, b.y, b.z, b.w, x[2], x[3]);
      }
      if constexpr (U::kPlanes == 2) {
        mma(sums[2][j], a_low.x, a_low.y, a_low.z, a_low.w, x[0], x[1]);
        mma(sums[2][j], b_low.x, b_low.y, b_low.z, b_low.w, x[2], x[3]);
        load_matrices(x, x_at + (kRowGroups + j) * group_bytes);
        mma(sums[1][j], a.x, a.y, a.z, a.w, x[0], x[1]);
        mma(sums[1][j], b.x, b.y, b.z, b.w, x[2], x[3]);
      }
    }
  }
}

// The next slice of x: rows behind the last one and columns behind the last unit are zeros. A thread has one piece of 8 columns, in every
// n-th row.
template <int kRowGroups, int kPlanes>
__device__ __forceinline__ void fetch_rows(const Matrix& step, int first_row, int n_rows, int slice, uint32_t stage) {
  constexpr int kRowsAtOnce = tiles_per_block(kRowGroups);
  const int padded = (step.weights.k + 63) / 64 * 64, piece = threadIdx.x % 32, column = slice * kSliceColumns + piece * 8;
  const int64_t stride = step.x.stride;
  const uint8_t* x = pointer<uint8_t>(step.x.base, column * 2);
#pragma unroll
  for (int plane = 0; plane < kPlanes; ++plane) {
#pragma unroll 4
    for (int r = threadIdx.x / 32; r < kRowGroups * 8; r += kRowsAtOnce) {
      const int m = first_row + r;
      const bool there = m < n_rows && column < padded;
      int64_t offset = m * stride + plane * padded * 2;
      if (step.parts != 1) offset = m / step.parts * stride + (m % step.parts * kPlanes + plane) * padded * 2;
      copy_async(stage + ((plane * kRowGroups * 8 + r) * kMatrixRowStride + piece * 8) * 2, there ? x + offset : nullptr, there);
    }
  }
}

template <WeightFormat kFormat, int kRowGroups>
__device__ __forceinline__ void multiply(const MatrixLaunch& launch) {
  extern __shared__ __align__(128) unsigned char shared[];
  using U = Unit<kFormat>;
  constexpr int kUnits = kSliceColumns / U::kColumns, kSlicesPerGroup = kGroupColumns / kSliceColumns, kPlanes = U::kPlanes,
                kChains = kPlanes == 2 ? 3 : 1;
  constexpr int kStageBytes = kPlanes * kRowGroups * 8 * kMatrixRowStride * 2;
  constexpr int kAhead = kUnitsAhead<kFormat, kRowGroups>;
  start_next();
  const Matrix& step = launch.step;
  const int n_tiles = (step.weights.n + 15) / 16, units_per_tile = (step.weights.k + U::kColumns - 1) / U::kColumns;
  const int n_slices = (step.weights.k + kSliceColumns - 1) / kSliceColumns;
  MatrixPlace at{static_cast<int>(threadIdx.x) / 32, static_cast<int>(threadIdx.x) % 32};
  at.g = at.lane / 4, at.t = at.lane % 4;
  const int own_tile = static_cast<int>(blockIdx.x) * tiles_per_block(kRowGroups) + at.warp;
  at.tile = min(own_tile, n_tiles - 1);
  at.first_row = static_cast<int>(blockIdx.z) * kRowGroups * 8;
  const int first_slice = static_cast<int>(blockIdx.y) * launch.slices_per_chunk;
  const int end_slice = min(first_slice + launch.slices_per_chunk, n_slices);
  const int first_unit = first_slice * kUnits, end_unit = min(end_slice * kUnits, units_per_tile);
  const uint8_t* units = pointer<uint8_t>(step.weights.units, static_cast<int64_t>(at.tile) * units_per_tile * U::kBytes);

  U ahead[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i)
    if (first_unit + i < end_unit) ahead[i].load(units + static_cast<int64_t>(first_unit + i) * U::kBytes, at.lane);
  wait_for_previous();
  const int n_rows = row_count(step.rows) * step.parts;
  if (at.first_row >= n_rows) return;

  const uint32_t rows_at = shared_address(shared);
#pragma unroll
  for (int i = 0; i < kMatrixStages - 1; ++i) {
    if (first_slice + i < end_slice)
      fetch_rows<kRowGroups, kPlanes>(step, at.first_row, n_rows, first_slice + i, rows_at + i * kStageBytes);
    commit_copies();
  }
  float sums[kChains][kRowGroups][4] = {}, group[kRowGroups][4] = {}, total[kRowGroups][4] = {};
  const uint32_t lane_offset = (at.lane % 8 * kMatrixRowStride + at.lane / 8 * 8) * 2;
  int slice = first_slice, stage = 0;

  const auto begin_slice = [&] {
    wait_copies<kMatrixStages - 2>();
    __syncthreads();
    const int next = slice + kMatrixStages - 1;
    if (next < end_slice)
      fetch_rows<kRowGroups, kPlanes>(step, at.first_row, n_rows, next,
                                      rows_at + (stage + kMatrixStages - 1) % kMatrixStages * kStageBytes);
    commit_copies();
  };
  const auto end_slice_sums = [&] {
    if constexpr (kPlanes == 2) {
#pragma unroll
      for (int j = 0; j < kRowGroups; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sums[0][j][i] += (sums[1][j][i] + sums[2][j][i]) * (1.0f / kPlaneStep);
          sums[1][j][i] = sums[2][j][i] = 0.0f;
        }
    }
    if (launch.n_chunks > 1 && launch.keeps_slices) {
      if (own_tile < n_tiles) write_part<kRowGroups>(launch, at, slice, sums[0]);
#pragma unroll
      for (int j = 0; j < kRowGroups; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[0][j][i] = 0.0f;
    } else {
      add_and_clear<kRowGroups>(group, sums[0]);
      if ((slice + 1) % kSlicesPerGroup == 0 || slice + 1 == end_slice) {
        if (launch.n_chunks > 1 && own_tile < n_tiles) write_part<kRowGroups>(launch, at, slice / kSlicesPerGroup, group);
        add_and_clear<kRowGroups>(total, group);
      }
    }
    ++slice;
    stage = (stage + 1) % kMatrixStages;
  };
  // Indices of `ahead` are constants: it is in registers.
  constexpr int kTurn = kAhead < kUnits ? kAhead : kUnits;  // units of one slice in `ahead`
  int unit = first_unit;
  while (slice < end_slice) {
#pragma unroll
    for (int first = 0; first < kAhead; first += kTurn) {
      if (slice < end_slice) {
        begin_slice();
        uint32_t x_at = rows_at + stage * kStageBytes + lane_offset;
#pragma unroll 1
        for (int turn = 0; turn < kUnits; turn += kTurn) {
#pragma unroll
          for (int i = 0; i < kTurn; ++i) {
            if (unit < end_unit) {
              add_unit<U, kRowGroups>(ahead[first + i], x_at, 8 * kMatrixRowStride * 2, sums);
              if (unit + kAhead < end_unit) ahead[first + i].load(units + static_cast<int64_t>(unit + kAhead) * U::kBytes, at.lane);
            }
            ++unit;
            x_at += U::kColumns * 2;
          }
        }
        end_slice_sums();
      }
    }
  }

  if (launch.n_chunks > 1) {
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      const auto count = static_cast<uint32_t>(launch.n_chunks - 1);
      is_last = atomicInc(pointer<uint32_t>(launch.tickets) + blockIdx.z * gridDim.x + blockIdx.x, count) == count;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    if (own_tile < n_tiles) sum_parts<kRowGroups>(launch, at, n_slices, total);
  }
  __syncthreads();  // the rows in shared memory are done with
  auto* results = reinterpret_cast<float*>(shared) + at.warp * kRowGroups * 128;
  if (own_tile < n_tiles) write_results<kRowGroups>(step, at, n_rows, total, results);
}

#define KVIK_MATRIX(name, format, row_groups, blocks_per_unit)                                                \
  extern "C" __global__ void __launch_bounds__(kvik::cuda::tiles_per_block(row_groups) * 32, blocks_per_unit) \
      name(const __grid_constant__ kvik::cuda::MatrixLaunch launch) {                                         \
    kvik::cuda::multiply<kvik::device::WeightFormat::format, row_groups>(launch);                             \
  }

}  // namespace kvik::cuda
