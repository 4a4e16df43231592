#pragma once

#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/stream_results.cuh"
#include "kernels/cuda/stream_ring.cuh"
#include "kernels/cuda/stream_rows.cuh"

// Products of up to 8 rows at the speed of memory: weights begin to arrive before the launch waits for the one before, so that norm and
// conversion of the rows cost little although every block does them. Sums are those of matrix.cuh.
namespace kvik::cuda {

// Sums of one slice, of columns g and g + 8 and rows 2t and 2t + 1.
__device__ __forceinline__ void put_sums(float* to, int n_rows, int lane, const float (&sums)[4]) {
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = 2 * t + i % 2;
    if (row < n_rows) to[row * 16 + g + i / 2 * 8] = sums[i];
  }
}

// Asks for all of a launch's arguments at once: each is a wait of its own otherwise.
__device__ __forceinline__ void touch_arguments(const StreamLaunch& launch) {
  asm volatile("" ::"r"(launch.k), "r"(launch.most), "l"(launch.x.base), "l"(launch.normed.base), "l"(launch.other.base),
               "l"(launch.residual.base), "l"(launch.parts));
}

template <WeightFormat kFormat>
__device__ __forceinline__ void multiply_stream(const StreamLaunch& launch) {
  extern __shared__ __align__(128) unsigned char shared[];
  using Ring = StreamRing<kFormat>;
  using U = typename Ring::U;
  __shared__ uint64_t barriers[kStreamWarps * kMostStreamSlots];
  __shared__ float x_scales[kStreamRows];
  __shared__ uint32_t warp_largest[kStreamWarps], block_largest[kStreamRows];
  start_next();
  touch_arguments(launch);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_tiles = launch.n_tiles;
  const int n_slices = (launch.k + kSliceColumns - 1) / kSliceColumns, units_per_tile = (launch.k + U::kColumns - 1) / U::kColumns;
  const int blocks = gridDim.x, block = blockIdx.x;
  const int first_item = block * launch.items_per_block + min(block, launch.n_larger_blocks);
  const int end_item = first_item + launch.items_per_block + (block < launch.n_larger_blocks ? 1 : 0);
  const bool split = launch.n_chunks > 1;
  const int first_chunk = split ? first_item / n_tiles : 0, first_tile = first_item - first_chunk * n_tiles;
  auto* gains = reinterpret_cast<float*>(shared + launch.gains_at);
  if (launch.input == StreamInput::kNormed) stage_gains(launch, gains);
  StreamCursor now{first_item, 0, first_tile, first_chunk};
  now.skip(warp, launch, n_slices);
  Ring ring(launch, shared + warp * launch.ring_slots * Ring::kSlotBytes, barriers + warp * kMostStreamSlots, now, end_item);

  float2* constants = launch.constants_at >= 0 ? reinterpret_cast<float2*>(shared + launch.constants_at) : nullptr;
  auto* sums = reinterpret_cast<float*>(shared + launch.sums_at);
  if (constants != nullptr) stage_constants(launch, constants, first_item, end_item);
  if (threadIdx.x < kStreamRows) block_largest[threadIdx.x] = 0;
  const int row_mask = (1 << launch.row_shift) - 1, slice_floats = 16 << launch.row_shift,
            chunk_columns = launch.slices_per_chunk * kSliceColumns;
  StreamRows rows{reinterpret_cast<uint16_t*>(shared + launch.rows_at), x_scales, warp_largest};
  rows.stride = launch.chunks_per_block * chunk_columns + 8;
  rows.first = first_chunk * chunk_columns;
  rows.end = min((launch.k + 63) / 64 * 64, rows.first + rows.stride - 8);
  rows.writes = block == 0;
  rows.write_first = first_tile == 0 ? rows.first : rows.first + chunk_columns;
  const int n_columns = launch.pairs ? n_tiles * 16 : launch.n;
  const auto result_at = [&](int i, int turn) {
    const int m = i / 16 & row_mask, item = turn + (i / 16 >> launch.row_shift), tile = split ? item % n_tiles : item;
    StreamResult at{m, 0, tile * 16 + i % 16, (item - first_item) * 16 + i % 16};
    if (launch.parts_of_row != 1) at.row = m / launch.parts_of_row, at.part = m % launch.parts_of_row;
    return at;
  };

  if (launch.input == StreamInput::kNormed) {
    wait_copies<0>();
    __syncthreads();
  }
  wait_for_previous();
  const int n_rows = min(*pointer<int32_t>(launch.n_rows) * launch.parts_of_row, launch.most);
  // What is added to a thread's first result comes while the weights are multiplied.
  const bool is_ahead = has_other(launch) && !split;
  float other_ahead = 0.0f;
  if (is_ahead) {
    const StreamResult at = result_at(threadIdx.x, first_item);
    if (at.row < launch.most && at.column < n_columns) other_ahead = __ldcg(row_at<float>(launch.other, at.row) + at.column);
  }
  if (launch.input == StreamInput::kHalves)
    copy_rows(launch, rows);
  else
    convert_rows(launch, rows, reinterpret_cast<float4*>(sums), reinterpret_cast<const float4*>(gains), n_rows);
  __syncthreads();

  const uint32_t lane_rows = shared_address(rows.rows) + (min(lane % 8, launch.most - 1) * rows.stride + lane / 8 * 8) * 2;
  const int slices_per_item = launch.pairs ? 2 * n_slices : launch.slices_per_chunk;
  auto* is_last = reinterpret_cast<bool*>(shared + launch.rows_at);  // of items; the rows are done with
  for (int turn = first_item, n = 0; turn < end_item; turn += launch.items_per_turn, ++n) {
    const int end = min(turn + launch.items_per_turn, end_item);
    float* turn_sums = sums + n % 2 * launch.items_per_turn * slices_per_item * slice_floats;
#pragma unroll 1
    while (now.item < end) {
      const int slice = now.slice_of(launch, n_slices), n_units = min(Ring::kUnits, units_per_tile - slice * Ring::kUnits);
      const uint32_t x_at = lane_rows + (slice * kSliceColumns - rows.first) * 2;
      const unsigned char* units = ring.wait();
      float slice_sums[1][1][4] = {};
      const auto add = [&](int i) {
        U unit;
        take_unit(unit, units + i * U::kBytes, lane);
        add_unit<U, 1>(unit, x_at + i * U::kColumns * 2, 0, slice_sums);
      };
      if (n_units == Ring::kUnits) {
#pragma unroll
        for (int i = 0; i < Ring::kUnits; ++i) add(i);
      } else {
#pragma unroll 1
        for (int i = 0; i < n_units; ++i) add(i);
      }
      ring.release();
      put_sums(turn_sums + ((now.item - turn) * slices_per_item + now.slice) * slice_floats, launch.most, lane, slice_sums[0][0]);
      now.skip(kStreamWarps, launch, n_slices);
    }
    __syncthreads();
    if (split) {  // the only turn
      write_groups(launch, turn_sums, turn, end, n_slices);
      __threadfence();
      __syncthreads();
      const auto last = static_cast<uint32_t>(launch.n_chunks - 1);
      for (int i = threadIdx.x; i < end - turn; i += kStreamThreads)
        is_last[i] = atomicInc(pointer<uint32_t>(launch.tickets) + (turn + i) % n_tiles, last) == last;
      __threadfence();
      __syncthreads();
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < (end - turn) * slice_floats; i += kStreamThreads) {
      const int item = i / 16 >> launch.row_shift, m = i / 16 & row_mask;
      const StreamResult at = result_at(i, turn);
      if (m >= n_rows || at.column >= n_columns || (split && !is_last[item]) || !is_selected(launch.selection, at.row)) continue;
      const float* from = turn_sums + item * slices_per_item * slice_floats + (i & (slice_floats - 1));
      const float sum =
          split ? sum_groups(launch, at.column / 16, i & (slice_floats - 1), n_slices) : sum_slices(from, n_slices, slice_floats);
      float y = finished(launch, constants, at, sum, x_scales[m]);
      if (launch.has_after) {
        float other = 0.0f;
        if (launch.pairs) {
          const StreamResult second{at.row, 0, at.column + n_columns, at.in_block + (end_item - first_item) * 16};
          other = finished(launch, constants, second, sum_slices(from + n_slices * slice_floats, n_slices, slice_floats), x_scales[m]);
        } else if (has_other(launch)) {
          const bool is_there = is_ahead && turn == first_item && i == threadIdx.x;
          other = is_there ? other_ahead : __ldcg(row_at<float>(launch.other, at.row) + at.column);
        }
        y = launch.own_operand == 0 ? after_of(launch, y, other) : after_of(launch, other, y);
        row_at<float>(launch.after_out, at.row)[at.column] = y;
      }
      if (launch.largest_out != Address::kNone) put_largest(&block_largest[m], y);
    }
  }
  if (launch.largest_out != Address::kNone) {
    __syncthreads();
    if (threadIdx.x < n_rows) __stcg(pointer<uint32_t>(launch.largest_out) + threadIdx.x * blocks + block, block_largest[threadIdx.x]);
  }
}

}  // namespace kvik::cuda

#define KVIK_STREAM(name, format)                                             \
  extern "C" __global__ void __launch_bounds__(kvik::cuda::kStreamThreads, 2) \
      name(const __grid_constant__ kvik::cuda::StreamLaunch launch) {         \
    kvik::cuda::multiply_stream<kvik::device::WeightFormat::format>(launch);  \
  }
