#pragma once

#include "kernels/cuda/matrix.cuh"

// Products of up to 8 rows, at the speed of memory: each lane copies its share of coming units into a ring of its own in shared memory, far
// ahead and past the ends of tiles, and waits for nobody. Sums are those of matrix.cuh.
namespace kvik::cuda {

__device__ __forceinline__ void copy_word_async(uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

// A lane's share of a unit, from memory into a slot of the ring and from there into registers.
__device__ __forceinline__ void fetch_unit(Unit<WeightFormat::kF16>, uint32_t slot, const uint8_t* unit, int lane) {
  copy_async(slot + lane * 16, unit + lane * 16, true);
  copy_async(slot + 512 + lane * 16, unit + 512 + lane * 16, true);
}
__device__ __forceinline__ void fetch_unit(Unit<WeightFormat::kQ8>, uint32_t slot, const uint8_t* unit, int lane) {
  copy_async(slot + lane * 16, unit + lane * 16, true);
  copy_word_async(slot + 512 + lane * 4, unit + 512 + lane / 4 * 4);
}
__device__ __forceinline__ void fetch_unit(Unit<WeightFormat::kQ4>, uint32_t slot, const uint8_t* unit, int lane) {
  copy_async(slot + lane * 16, unit + lane * 16, true);
  copy_word_async(slot + 512 + lane * 4, unit + 512 + lane / 4 * 4);
  copy_word_async(slot + 640 + lane * 4, unit + 544 + lane / 4 * 4);
}
__device__ __forceinline__ void take_unit(Unit<WeightFormat::kF16>& unit, const unsigned char* slot, int lane) {
  unit.words[0] = *reinterpret_cast<const uint4*>(slot + lane * 16);
  unit.words[1] = *reinterpret_cast<const uint4*>(slot + 512 + lane * 16);
}
__device__ __forceinline__ void take_unit(Unit<WeightFormat::kQ8>& unit, const unsigned char* slot, int lane) {
  unit.words = *reinterpret_cast<const uint4*>(slot + lane * 16);
  unit.scales = *reinterpret_cast<const uint32_t*>(slot + 512 + lane * 4);
}
__device__ __forceinline__ void take_unit(Unit<WeightFormat::kQ4>& unit, const unsigned char* slot, int lane) {
  unit.words = *reinterpret_cast<const uint4*>(slot + lane * 16);
  unit.scales[0] = *reinterpret_cast<const uint32_t*>(slot + 512 + lane * 4);
  unit.scales[1] = *reinterpret_cast<const uint32_t*>(slot + 640 + lane * 4);
}

// The slices of a block's items that a warp has: every n_warps-th, in order.
struct Cursor {
  int item, slice, tile, chunk;  // slice: of the item

  __device__ __forceinline__ static int slices_of(const MatrixLaunch& launch, int n_slices, int chunk) {
    return min(launch.slices_per_chunk, n_slices - chunk * launch.slices_per_chunk);
  }
  __device__ __forceinline__ void skip(int n, const MatrixLaunch& launch, int n_tiles, int n_slices) {
    slice += n;
    for (int own = slices_of(launch, n_slices, chunk); slice >= own && own > 0; own = slices_of(launch, n_slices, chunk)) {
      slice -= own;
      ++item;
      if (++tile == n_tiles) tile = 0, ++chunk;
    }
  }
};

template <WeightFormat kFormat>
__device__ __forceinline__ void multiply_stream(const StreamLaunch& launch) {
  extern __shared__ __align__(128) unsigned char shared[];
  using U = Unit<kFormat>;
  constexpr int kUnits = kSliceColumns / U::kColumns, kSlotBytes = stream_unit_bytes(kFormat), kWarps = stream_warps(kFormat);
  constexpr int kRing = 2 * kUnits;  // two slices
  start_next();
  const Matrix& step = launch.matrix.step;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int n_tiles = (step.weights.n + 15) / 16, n_slices = (step.weights.k + kSliceColumns - 1) / kSliceColumns;
  const int units_per_tile = (step.weights.k + U::kColumns - 1) / U::kColumns, slices_per_chunk = launch.matrix.slices_per_chunk;
  const int n_items = n_tiles * launch.matrix.n_chunks, blocks = gridDim.x, block = blockIdx.x;
  const int first_item = static_cast<int>(static_cast<int64_t>(n_items) * block / blocks);
  const int end_item = static_cast<int>(static_cast<int64_t>(n_items) * (block + 1) / blocks);
  const int first_chunk = first_item / n_tiles;
  Cursor now{first_item, 0, first_item - first_chunk * n_tiles, first_chunk};
  now.skip(warp, launch.matrix, n_tiles, n_slices);

  // Copies run two slices ahead of the sums: a group of copies for each unit, empty where there is none.
  unsigned char* ring = shared + warp * kRing * kSlotBytes;
  Cursor ahead = now;
  const uint8_t* from = nullptr;
  int n_ahead = 0;
  const auto next_slice = [&] {
    n_ahead = 0;
    if (ahead.item >= end_item) return;
    const int slice = ahead.chunk * slices_per_chunk + ahead.slice;
    from = pointer<uint8_t>(step.weights.units, (static_cast<int64_t>(ahead.tile) * units_per_tile + slice * kUnits) * U::kBytes);
    n_ahead = min(kUnits, units_per_tile - slice * kUnits);
    ahead.skip(kWarps, launch.matrix, n_tiles, n_slices);
  };
  const uint32_t ring_at = shared_address(ring);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    next_slice();
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      if (i < n_ahead) fetch_unit(U{}, ring_at + (half * kUnits + i) * kSlotBytes, from + i * U::kBytes, lane);
      commit_copies();
    }
  }

  wait_for_previous();
  const int n_rows = row_count(step.rows) * step.parts;
  if (n_rows == 0 || first_item == end_item) {
    wait_copies<0>();
    return;
  }
  // Rows of the chunks that the block has; sums of columns without a row are not read.
  const int padded = (step.weights.k + 63) / 64 * 64, first_column = first_chunk * slices_per_chunk * kSliceColumns;
  const int row_stride = launch.chunks_per_block * slices_per_chunk * kSliceColumns + 8;
  const int n_chunks_of_8 = min(row_stride - 8, padded - first_column) / 8;
  auto* rows = reinterpret_cast<uint16_t*>(shared + launch.rows_at);
  for (int m = 0; m < n_rows; ++m) {
    const int row = step.parts == 1 ? m : m / step.parts, part = step.parts == 1 ? 0 : m % step.parts;
    const auto* x = reinterpret_cast<const uint4*>(pointer<uint16_t>(step.x.base, row * step.x.stride) + part * padded + first_column);
#pragma unroll 2
    for (int i = threadIdx.x; i < n_chunks_of_8; i += kWarps * 32) *reinterpret_cast<uint4*>(rows + m * row_stride + i * 8) = x[i];
  }
  __syncthreads();

  const uint32_t lane_rows = shared_address(rows) + (min(lane % 8, n_rows - 1) * row_stride + lane / 8 * 8) * 2;
  const bool split = launch.matrix.n_chunks > 1;
  MatrixPlace at{warp, lane, lane / 4, lane % 4, 0, 0};
  int half = 0;
  for (int turn = first_item, n = 0; turn < end_item; turn += launch.items_per_turn, ++n) {
    const int end = min(turn + launch.items_per_turn, end_item);
    auto* sums_at = reinterpret_cast<float4*>(shared + launch.sums_at) + n % 2 * launch.items_per_turn * slices_per_chunk * 32;
#pragma unroll 1
    while (now.item < end) {
      const int slice = now.chunk * slices_per_chunk + now.slice, n_units = min(kUnits, units_per_tile - slice * kUnits);
      const uint32_t x_at = lane_rows + (slice * kSliceColumns - first_column) * 2, slots_at = ring_at + half * kUnits * kSlotBytes;
      const unsigned char* slots = ring + half * kUnits * kSlotBytes;
      float sums[1][1][4] = {};
      next_slice();
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        wait_copies<kRing - 1>();
        U unit;
        take_unit(unit, slots + i * kSlotBytes, lane);
        if (i < n_units) add_unit<U, 1>(unit, x_at + i * U::kColumns * 2, 0, sums);
        if (i < n_ahead) fetch_unit(U{}, slots_at + i * kSlotBytes, from + i * U::kBytes, lane);
        commit_copies();
      }
      half ^= 1;
      if (split) {
        at.tile = now.tile;
        write_part<1>(launch.matrix, at, slice, sums[0]);
      } else {
        sums_at[((now.item - turn) * slices_per_chunk + now.slice) * 32 + lane] =
            make_float4(sums[0][0][0], sums[0][0][1], sums[0][0][2], sums[0][0][3]);
      }
      now.skip(kWarps, launch.matrix, n_tiles, n_slices);
    }
    if (split) __threadfence();
    __syncthreads();
    for (int item = turn + warp; item < end; item += kWarps) {
      at.tile = item % n_tiles;
      float total[1][4] = {};
      if (split) {
        uint32_t ticket = 0;
        const auto last = static_cast<uint32_t>(launch.matrix.n_chunks - 1);
        if (lane == 0) ticket = atomicInc(pointer<uint32_t>(launch.matrix.tickets) + at.tile, last);
        if (__shfl_sync(~0u, ticket, 0) != last) continue;
        __threadfence();
        sum_parts<1>(launch.matrix, at, n_slices, total);
      } else {
        float group[1][4] = {};
        for (int slice = 0; slice < n_slices; ++slice) {
          const float4 sum = sums_at[((item - turn) * slices_per_chunk + slice) * 32 + lane];
          group[0][0] += sum.x, group[0][1] += sum.y, group[0][2] += sum.z, group[0][3] += sum.w;
          if ((slice + 1) % (kGroupColumns / kSliceColumns) == 0 || slice + 1 == n_slices) add_and_clear<1>(total, group);
        }
      }
      write_results<1>(step, at, n_rows, total, reinterpret_cast<float*>(shared + launch.results_at) + warp * 128);
    }
  }
  wait_copies<0>();
}

}  // namespace kvik::cuda

#define KVIK_STREAM(name, format)                                                                                    \
  extern "C" __global__ void __launch_bounds__(kvik::cuda::stream_warps(kvik::device::WeightFormat::format) * 32, 1) \
      name(const __grid_constant__ kvik::cuda::StreamLaunch launch) {                                                \
    kvik::cuda::multiply_stream<kvik::device::WeightFormat::format>(launch);                                         \
  }
