#pragma once

#include "kernels/cuda/wgmma.cuh"
#include "kernels/cuda/wide_copies.cuh"
#include "kernels/cuda/wide_results.cuh"

// Products of more than 8 rows. One thread copies weights, as they are packed, and rows into a ring of stages in shared memory, far ahead
// and past the ends of items; up to three warpgroups multiply. Sums are in the order of order.h.
namespace kvik::cuda {

// A lane's share of 32 columns of k in shared memory: the codes of two steps, and the scales of columns g and g + 8.
template <WeightFormat kFormat>
struct WideBlock;
template <>
struct WideBlock<WeightFormat::kQ8> {
  uint4 codes;
  uint32_t scales;
  __device__ __forceinline__ void load(const unsigned char* units, int block, int lane) {
    const unsigned char* unit = units + block * Unit<WeightFormat::kQ8>::kBytes;
    codes = *reinterpret_cast<const uint4*>(unit + lane * 16);
    scales = *reinterpret_cast<const uint32_t*>(unit + 512 + lane / 4 * 4);
  }
  __device__ __forceinline__ uint4 first() const { return fragment_of_bytes(codes.x, codes.y, 0x64806480u, 0x64806480u); }
  __device__ __forceinline__ uint4 second() const { return fragment_of_bytes(codes.z, codes.w, 0x64806480u, 0x64806480u); }
};
template <>
struct WideBlock<WeightFormat::kQ4> {
  uint2 codes;
  uint32_t scales;
  __device__ __forceinline__ void load(const unsigned char* units, int block, int lane) {
    const unsigned char* unit = units + block / 2 * Unit<WeightFormat::kQ4>::kBytes;
    codes = *reinterpret_cast<const uint2*>(unit + lane * 16 + block % 2 * 8);
    scales = *reinterpret_cast<const uint32_t*>(unit + 512 + block % 2 * 32 + lane / 4 * 4);
  }
  __device__ __forceinline__ uint4 first() const { return fragment_of_nibbles(codes.x, 0x64086408u, 0xd480d480u); }
  __device__ __forceinline__ uint4 second() const { return fragment_of_nibbles(codes.y, 0x64086408u, 0xd480d480u); }
};

template <int kRows>
__device__ __forceinline__ void clear(float (&sums)[kRows / 8][4]) {
#pragma unroll
  for (int j = 0; j < kRows / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[j][i] = 0.0f;
}

// What a warp reads of a stage.
struct WideStage {
  const unsigned char* units;  // of its tile
  uint32_t rows;
  int n_units;
};

// Four steps of f16: a piece of 64 columns of a stage.
__device__ __forceinline__ void load_steps(const WideStage& stage, int piece, int lane, uint4 (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    a[i] = make_uint4(0, 0, 0, 0);  // changes nothing
    if (piece * 2 + i / 2 < stage.n_units) a[i] = *reinterpret_cast<const uint4*>(stage.units + piece * 2048 + i * 512 + lane * 16);
  }
}
template <int kRows>
__device__ __forceinline__ void multiply_steps(const WideStage& stage, int piece, const uint4 (&a)[4], bool continues,
                                               float (&sum)[kRows / 8][4]) {
  const uint64_t x = swizzled_rows(stage.rows + piece * (kRows * 128));
  begin_wgmma();
#pragma unroll
  for (int i = 0; i < 4; ++i) wgmma(sum, a[i], x + i * 2, i > 0 || continues);
  commit_wgmma();
}

// A slice of f16: one chain over its stages. The tensor cores have the next four steps before they are done with four.
template <int kRows, class Next, class Done>
__device__ __forceinline__ void add_slice(Unit<WeightFormat::kF16>, int n_stages, int lane, const Next& next, const Done& done,
                                          float (&sum)[kRows / 8][4]) {
  constexpr int kColumns = wide_stage_columns(WeightFormat::kF16, kRows), kPieces = kColumns / 64, kAllPieces = kSliceColumns / 64;
  if (n_stages == kSliceColumns / kColumns) {
    uint4 a[2][4];
    WideStage stage;
#pragma unroll
    for (int s = 0; s < kAllPieces; ++s) {
      if (s % kPieces == 0) stage = next();
      load_steps(stage, s % kPieces, lane, a[s % 2]);
      multiply_steps<kRows>(stage, s % kPieces, a[s % 2], s > 0, sum);
      if (s == 0) continue;
      wait_wgmma<1>();
      if (s % kPieces == 0) done();
    }
    wait_wgmma<0>();
    done();
    return;
  }
#pragma unroll 1
  for (int s = 0; s < n_stages; ++s) {
    const WideStage stage = next();
#pragma unroll 1
    for (int piece = 0; piece < kPieces; ++piece) {
      uint4 a[4];
      load_steps(stage, piece, lane, a);
      multiply_steps<kRows>(stage, piece, a, s > 0 || piece > 0, sum);
      wait_wgmma<0>();
    }
    done();
  }
}

// A slice of quantized blocks: a fresh accumulator for each, then sum = fma(scale, block, sum).
template <int kRows, WeightFormat kFormat, class Next, class Done>
__device__ __forceinline__ void add_slice(Unit<kFormat>, int n_stages, int lane, const Next& next, const Done& done,
                                          float (&sum)[kRows / 8][4]) {
#pragma unroll 1
  for (int s = 0; s < n_stages; ++s) {
    const WideStage stage = next();
    const int n_blocks = stage.n_units * (Unit<kFormat>::kColumns / kBlockColumns);
    WideBlock<kFormat> weights;
    weights.load(stage.units, 0, lane);
#pragma unroll 1
    for (int block = 0; block < n_blocks; ++block) {
      const uint64_t x = swizzled_rows(stage.rows + block / 2 * (kRows * 128) + block % 2 * 64);
      const uint32_t scale_bits = weights.scales;
      const uint4 a = weights.first(), b = weights.second();
      float d[kRows / 8][4];
      begin_wgmma();
      wgmma_first(d, a, x);
      wgmma(d, b, x + 2, true);
      commit_wgmma();
      weights.load(stage.units, min(block + 1, n_blocks - 1), lane);  // while the tensor cores are at work
      wait_wgmma<0>();
      const float2 scales = __half22float2(*reinterpret_cast<const __half2*>(&scale_bits));
#pragma unroll
      for (int j = 0; j < kRows / 8; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[j][i] = fused(i < 2 ? scales.x : scales.y, d[j][i], sum[j][i]);
    }
    done();
  }
}

// Registers go from the warpgroup that copies to those that multiply.
template <bool kMultiplies, int kMostTiles>
__device__ __forceinline__ void set_registers() {
  if constexpr (kMultiplies)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMostTiles > 8 ? 160 : 232));
  else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kMostTiles > 8 ? 32 : 40));
}

template <WeightFormat kFormat, int kRows, class Cluster>
__device__ __forceinline__ void multiply_wide(const WideLaunch& launch) {
  extern __shared__ unsigned char dynamic[];
  __shared__ __align__(8) uint64_t full[kMostWideStages], empty[kMostWideStages];
  __shared__ bool is_last;
  using U = Unit<kFormat>;
  using Copier = WideCopier<kFormat, kRows, Cluster>;
  constexpr int kSlicesPerGroup = kGroupColumns / kSliceColumns, kJ = kRows / 8;
  start_next();
  const Matrix& step = launch.matrix.step;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warps = blockDim.x / 32 - 4;  // that multiply
  const int n_tiles = (step.weights.n + 15) / 16, n_slices = (step.weights.k + kSliceColumns - 1) / kSliceColumns;
  const Copier copier{launch, (step.weights.k + U::kColumns - 1) / U::kColumns, n_tiles};
  const uint32_t base = (shared_address(dynamic) + 1023) / 1024 * 1024;
  unsigned char* stages = dynamic + (base - shared_address(dynamic));
  Ring ring{base, shared_address(full), shared_address(empty), wide_stage_bytes(kFormat, kRows, launch.n_tiles), launch.n_stages, 0, 0};
  if (threadIdx.x == 0) {
    for (int i = 0; i < launch.n_stages; ++i)
      init_barrier(ring.full_at + i * 8, 1), init_barrier(ring.empty_at + i * 8, n_warps * Cluster::kBlocks);
    publish_barriers();
  }
  __syncthreads();
  Cluster::arrive();
  const int n_rows = row_count(step.rows), n_row_tiles = (n_rows + kRows - 1) / kRows;  // nothing in a list of steps changes them
  if (warp >= n_warps) {
    set_registers<false, wide_most_tiles(kFormat, kRows)>();
    int n_early = 0;
    if (warp == n_warps && lane == 0) {
      prefetch_map(launch.rows);
      n_early = copier.copy_early(ring, n_slices, n_row_tiles);
    }
    __syncwarp();
    Cluster::wait();
    wait_for_previous();
    if (warp == n_warps && lane == 0) copier.run(ring, n_slices, n_row_tiles, n_early);
    __syncwarp();
    Cluster::arrive();
    Cluster::wait();
    return;
  }
  set_registers<true, wide_most_tiles(kFormat, kRows)>();
  Cluster::wait();
  wait_for_previous();
  const int n_items = Cluster::n_items(launch, n_row_tiles);
  const bool split = launch.matrix.n_chunks > 1;
  float* totals = reinterpret_cast<float*>(stages + launch.totals_at) + threadIdx.x;
  float* results = reinterpret_cast<float*>(stages + launch.results_at) + warp * (kWideResultRows * kWideResultStride);
  const auto sync_multipliers = [&] { asm volatile("bar.sync 1, %0;" ::"r"(n_warps * 32) : "memory"); };
  Ring done_ring = ring;  // the next stage to release
#pragma unroll 1
  for (int index = Cluster::first_item(); index < n_items; index += Cluster::stride()) {
    const WideItem item = wide_item<Cluster>(launch, index, n_row_tiles, n_slices);
    const int tile = item.first_tile + warp;
    // A warp without a tile multiplies what the first one has, and a block without rows nothing that counts: their results are not kept.
    const bool is_there = item.row_tile < n_row_tiles;
    const bool has_tile = is_there && warp < launch.n_tiles && tile < n_tiles;
    const int weights_at = Copier::kRowBytes + (has_tile ? warp * Copier::kUnits * U::kBytes : 0);
    float group[kJ][4] = {}, row_scales[kJ];
    constexpr bool kScalesFirst = kRows <= 32 || wide_most_tiles(kFormat, kRows) <= 8;  // if there are registers
    if (kScalesFirst) load_row_scales<kRows>(step, item.row_tile * kRows, n_rows, lane, row_scales);
    int stage = copier.first_stage(item);
    const int end_stage = copier.end_stage(item);
    bool has_totals = false;
#pragma unroll 1
    for (int slice = item.first_slice; slice < item.end_slice; ++slice) {
      const int end = min((slice + 1) * (kSliceColumns / Copier::kColumns), end_stage);
      float sum[kJ][4] = {};
      const auto next = [&] {
        wait_barrier(ring.full(), ring.parity);
        const WideStage now{stages + ring.stage * ring.stage_bytes + weights_at, ring.at(),
                            min(Copier::kUnits, copier.units_per_tile - stage * Copier::kUnits)};
        ring.next();
        ++stage;
        return now;
      };
      const auto done = [&] {
        if constexpr (Cluster::kBlocks > 1) {
          if (lane < Cluster::kBlocks) arrive_at(done_ring.empty(), lane);
        } else {
          if (lane == 0) arrive(done_ring.empty());
        }
        done_ring.next();
      };
      add_slice<kRows>(U{}, end - stage, lane, next, done, sum);
      const bool keeps_slice = split && launch.matrix.keeps_slices;
      if (keeps_slice) {
        if (has_tile) write_wide_part<kRows>(wide_part<kRows>(launch, tile, item.row_tile, slice, lane), sum);
        continue;
      }
#pragma unroll
      for (int j = 0; j < kJ; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) group[j][i] += sum[j][i];
      const bool ends_group = (slice + 1) % kSlicesPerGroup == 0 || slice + 1 == item.end_slice;
      if (!ends_group) continue;
      if (split) {
        if (has_tile) write_wide_part<kRows>(wide_part<kRows>(launch, tile, item.row_tile, slice / kSlicesPerGroup, lane), group);
        clear<kRows>(group);
      } else if (has_totals || slice + 1 < item.end_slice) {
#pragma unroll
        for (int j = 0; j < kJ; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float& total = totals[(j * 4 + i) * n_warps * 32];
            if (has_totals) group[j][i] = total + group[j][i];
            if (slice + 1 < item.end_slice) total = group[j][i], group[j][i] = 0.0f;
          }
        has_totals = true;
      }
    }
    if (split && !is_there) continue;
    if (split) {
      __threadfence();
      sync_multipliers();
      if (threadIdx.x == 0) {
        const auto last = static_cast<uint32_t>(launch.matrix.n_chunks - 1);
        uint32_t* ticket = pointer<uint32_t>(launch.matrix.tickets) + item.tile_block * launch.n_row_tiles + item.row_tile;
        is_last = atomicInc(ticket, last) == last;
      }
      sync_multipliers();
      const bool sums_up = is_last;
      sync_multipliers();  // before the next item's ticket
      if (!sums_up) continue;
      __threadfence();
      const int64_t stride = static_cast<int64_t>(launch.n_row_tiles) * n_tiles * (kRows * 4);
      if (has_tile) sum_wide_parts<kRows>(launch, wide_part<kRows>(launch, tile, item.row_tile, 0, lane), stride, n_slices, group);
    }
    if (!kScalesFirst) load_row_scales<kRows>(step, item.row_tile * kRows, n_rows, lane, row_scales);
    if (has_tile) write_wide_results<kRows>(step, tile, item.row_tile * kRows, n_rows, lane, results, row_scales, group);
  }
  Cluster::arrive();
  Cluster::wait();  // a neighbor may still copy into this block's memory
}

}  // namespace kvik::cuda

#define KVIK_WIDE(name, format, n_rows, n_blocks)                                                                     \
  extern "C" __global__ void __cluster_dims__(n_blocks)                                                               \
      __launch_bounds__(kvik::cuda::wide_most_tiles(kvik::device::WeightFormat::format, n_rows) * 32 + 128, 1)        \
          name(const __grid_constant__ kvik::cuda::WideLaunch launch) {                                               \
    kvik::cuda::multiply_wide<kvik::device::WeightFormat::format, n_rows, kvik::cuda::WideCluster<n_blocks>>(launch); \
  }
