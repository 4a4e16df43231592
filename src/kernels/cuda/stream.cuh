#pragma once

#include "kernels/cuda/matrix.cuh"

// Products of up to 8 rows, at the speed of memory: each lane copies its share of coming units into a ring of its own in shared memory, far
// ahead and past the ends of tiles, and waits for nobody. Sums are those of matrix.cuh.
namespace kvik::cuda {

__device__ __forceinline__ void copy_word_async(uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from));
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

// The items of a block, and the slices of theirs that a warp has: every kStreamWarps-th, in order.
struct Stream {
  int n_tiles, n_slices, slices_per_chunk, units_per_tile, end_item;

  __device__ __forceinline__ int tile_of(int item) const { return item % n_tiles; }
  __device__ __forceinline__ int first_slice(int item) const { return item / n_tiles * slices_per_chunk; }
  __device__ __forceinline__ int slices_of(int item) const { return min(slices_per_chunk, n_slices - first_slice(item)); }
};

struct Cursor {
  int item, slice;  // slice: of the item

  __device__ __forceinline__ void settle(const Stream& stream) {
    while (item < stream.end_item && slice >= stream.slices_of(item)) slice -= stream.slices_of(item), ++item;
  }
};

template <WeightFormat kFormat>
__device__ __forceinline__ void multiply_stream(const StreamLaunch& launch) {
  extern __shared__ __align__(128) unsigned char shared[];
  using U = Unit<kFormat>;
  constexpr int kUnits = kSliceColumns / U::kColumns, kSlotBytes = stream_unit_bytes(kFormat);
  start_next();
  const Matrix& step = launch.matrix.step;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Stream stream{(step.weights.n + 15) / 16, (step.weights.k + kSliceColumns - 1) / kSliceColumns, launch.matrix.slices_per_chunk,
                (step.weights.k + U::kColumns - 1) / U::kColumns, 0};
  const int n_items = stream.n_tiles * launch.matrix.n_chunks, blocks = gridDim.x, block = blockIdx.x;
  const int first_item = static_cast<int>(static_cast<int64_t>(n_items) * block / blocks);
  stream.end_item = static_cast<int>(static_cast<int64_t>(n_items) * (block + 1) / blocks);
  const auto units_in = [&](int slice) { return min(kUnits, stream.units_per_tile - slice * kUnits); };

  // Copies run ahead of the sums: a group of copies for each unit, empty behind the last one.
  unsigned char* ring = shared + warp * kStreamUnits * kSlotBytes;
  const uint32_t ring_at = shared_address(ring);
  Cursor ahead{first_item, warp};
  ahead.settle(stream);
  const uint8_t* from = nullptr;
  int left = 0, fill = 0;
  const auto fetch_next = [&] {
    if (left == 0 && ahead.item < stream.end_item) {
      const int slice = stream.first_slice(ahead.item) + ahead.slice;
      from = pointer<uint8_t>(step.weights.units,
                              (static_cast<int64_t>(stream.tile_of(ahead.item)) * stream.units_per_tile + slice * kUnits) * U::kBytes);
      left = units_in(slice);
      ahead.slice += kStreamWarps;
      ahead.settle(stream);
    }
    if (left > 0) {
      fetch_unit(U{}, ring_at + fill * kSlotBytes, from, lane);
      from += U::kBytes;
      --left;
    }
    fill = fill + 1 == kStreamUnits ? 0 : fill + 1;
    commit_copies();
  };
  for (int i = 0; i < kStreamUnits - 1; ++i) fetch_next();

  wait_for_previous();
  const int n_rows = row_count(step.rows) * step.parts;
  if (n_rows == 0 || first_item == stream.end_item) {
    wait_copies<0>();
    return;
  }
  // Rows of the chunks that the block has; sums of columns without a row are not read.
  const int padded = (step.weights.k + 63) / 64 * 64, first_chunk = first_item / stream.n_tiles;
  const int first_column = first_chunk * stream.slices_per_chunk * kSliceColumns;
  const int n_columns = min(launch.chunks_per_block * stream.slices_per_chunk * kSliceColumns, padded - first_column);
  auto* rows = reinterpret_cast<uint16_t*>(shared + launch.rows_at);
  const int row_stride = launch.chunks_per_block * stream.slices_per_chunk * kSliceColumns + 8;
  for (int i = threadIdx.x; i < n_rows * (n_columns / 8); i += kStreamWarps * 32) {
    const int m = i / (n_columns / 8), column = i % (n_columns / 8) * 8;
    const int row = step.parts == 1 ? m : m / step.parts, part = step.parts == 1 ? 0 : m % step.parts;
    const auto* x = pointer<uint16_t>(step.x.base, row * step.x.stride) + part * padded + first_column + column;
    *reinterpret_cast<uint4*>(rows + m * row_stride + column) = *reinterpret_cast<const uint4*>(x);
  }
  __syncthreads();

  const uint32_t lane_rows = shared_address(rows) + (min(lane % 8, n_rows - 1) * row_stride + lane / 8 * 8) * 2;
  const bool split = launch.matrix.n_chunks > 1;
  MatrixPlace at{warp, lane, lane / 4, lane % 4, 0, 0};
  Cursor now{first_item, warp};
  now.settle(stream);
  int take = 0;
  for (int turn = first_item, n = 0; turn < stream.end_item; turn += launch.items_per_turn, ++n) {
    const int end = min(turn + launch.items_per_turn, stream.end_item);
    auto* sums_at = reinterpret_cast<float4*>(shared + launch.sums_at) + n % 2 * launch.items_per_turn * stream.slices_per_chunk * 32;
    while (now.item < end) {
      const int slice = stream.first_slice(now.item) + now.slice, n_units = units_in(slice);
      uint32_t x_at = lane_rows + (slice * kSliceColumns - first_column) * 2;
      float sums[1][1][4] = {};
#pragma unroll 4
      for (int i = 0; i < n_units; ++i) {
        wait_copies<kStreamUnits - 2>();
        U unit;
        take_unit(unit, ring + take * kSlotBytes, lane);
        take = take + 1 == kStreamUnits ? 0 : take + 1;
        add_unit<U, 1>(unit, x_at, 0, sums);
        x_at += U::kColumns * 2;
        fetch_next();
      }
      if (split) {
        at.tile = stream.tile_of(now.item);
        write_part<1>(launch.matrix, at, slice, sums[0]);
      } else {
        sums_at[((now.item - turn) * stream.slices_per_chunk + now.slice) * 32 + lane] =
            make_float4(sums[0][0][0], sums[0][0][1], sums[0][0][2], sums[0][0][3]);
      }
      now.slice += kStreamWarps;
      now.settle(stream);
    }
    if (split) __threadfence();
    __syncthreads();
    for (int item = turn + warp; item < end; item += kStreamWarps) {
      at.tile = stream.tile_of(item);
      float total[1][4] = {};
      if (split) {
        uint32_t ticket = 0;
        const auto last = static_cast<uint32_t>(launch.matrix.n_chunks - 1);
        if (lane == 0) ticket = atomicInc(pointer<uint32_t>(launch.matrix.tickets) + at.tile, last);
        if (__shfl_sync(~0u, ticket, 0) != last) continue;
        __threadfence();
        sum_parts<1>(launch.matrix, at, stream.n_slices, total);
      } else {
        float group[1][4] = {};
        for (int slice = 0; slice < stream.n_slices; ++slice) {
          const float4 sum = sums_at[((item - turn) * stream.slices_per_chunk + slice) * 32 + lane];
          group[0][0] += sum.x, group[0][1] += sum.y, group[0][2] += sum.z, group[0][3] += sum.w;
          if ((slice + 1) % (kGroupColumns / kSliceColumns) == 0 || slice + 1 == stream.n_slices) add_and_clear<1>(total, group);
        }
      }
      write_results<1>(step, at, n_rows, total);
    }
  }
  wait_copies<0>();
}

}  // namespace kvik::cuda

#define KVIK_STREAM(name, format)                                                \
  extern "C" __global__ void __launch_bounds__(kvik::cuda::kStreamWarps * 32, 1) \
      name(const __grid_constant__ kvik::cuda::StreamLaunch launch) {            \
    kvik::cuda::multiply_stream<kvik::device::WeightFormat::format>(launch);     \
  }
