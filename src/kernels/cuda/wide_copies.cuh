#pragma once

#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/unit_formats.cuh"

// How blocks of wide.cuh divide a product, and the thread that copies weights and rows into their rings.
namespace kvik::cuda {

// The blocks of a cluster have neighboring row tiles and the same tiles of weights: each copies a part of the weights for all.
template <int kBlocks_>
struct WideCluster {
  static constexpr int kBlocks = kBlocks_;
  __device__ __forceinline__ static void arrive() {
    if constexpr (kBlocks > 1) arrive_at_cluster();
  }
  __device__ __forceinline__ static void wait() {
    if constexpr (kBlocks > 1) wait_for_cluster();
  }
  __device__ __forceinline__ static int rank() { return static_cast<int>(blockIdx.x) % kBlocks; }
  __device__ __forceinline__ static int first_item() { return static_cast<int>(blockIdx.x) / kBlocks; }
  __device__ __forceinline__ static int stride() { return static_cast<int>(gridDim.x) / kBlocks; }
  __device__ __forceinline__ static int n_items(const WideLaunch& launch, int n_row_tiles) {
    return (n_row_tiles + kBlocks - 1) / kBlocks * launch.n_tile_blocks * launch.matrix.n_chunks;
  }
};

struct WideItem {
  int row_tile, tile_block, first_tile, first_slice, end_slice;
};
template <class Cluster>
__device__ __forceinline__ WideItem wide_item(const WideLaunch& launch, int index, int n_row_tiles, int n_slices) {
  WideItem item;
  const int n_row_runs = (n_row_tiles + Cluster::kBlocks - 1) / Cluster::kBlocks;
  item.row_tile = index % n_row_runs * Cluster::kBlocks + Cluster::rank();  // neighbors read the same weights
  index /= n_row_runs;
  item.tile_block = index % launch.n_tile_blocks;
  item.first_tile = item.tile_block * launch.n_tiles;
  item.first_slice = index / launch.n_tile_blocks * launch.matrix.slices_per_chunk;
  item.end_slice = min(item.first_slice + launch.matrix.slices_per_chunk, n_slices);
  return item;
}

// The ring: its stages in turns, from the first on.
struct Ring {
  uint32_t stages_at, full_at, empty_at;  // in shared memory
  int stage_bytes, n_stages, stage;
  uint32_t parity;
  __device__ __forceinline__ void next() {
    if (++stage == n_stages) stage = 0, parity ^= 1;
  }
  __device__ __forceinline__ uint32_t full() const { return full_at + stage * 8; }
  __device__ __forceinline__ uint32_t empty() const { return empty_at + stage * 8; }
  __device__ __forceinline__ uint32_t at() const { return stages_at + stage * stage_bytes; }
};

template <WeightFormat kFormat, int kRows, class Cluster>
struct WideCopier {
  using U = Unit<kFormat>;
  static constexpr int kColumns = wide_stage_columns(kFormat, kRows), kUnits = kColumns / U::kColumns, kRowBytes = kRows * kColumns * 2;
  const WideLaunch& launch;
  int units_per_tile, n_tiles;

  __device__ __forceinline__ int n_live(const WideItem& item) const { return max(0, min(launch.n_tiles, n_tiles - item.first_tile)); }
  __device__ __forceinline__ int unit_bytes(int stage) const { return min(kUnits, units_per_tile - stage * kUnits) * U::kBytes; }

  // Each block of a cluster copies every n-th tile, for all.
  __device__ __forceinline__ void copy_weights(const WideItem& item, int stage, uint32_t to, uint32_t barrier) const {
    const uint32_t tile_bytes = units_per_tile * U::kBytes;
    const int n_bytes = unit_bytes(stage);
    const uint8_t* from = pointer<uint8_t>(launch.matrix.step.weights.units) +
                          static_cast<uint64_t>(tile_bytes) * (item.first_tile + Cluster::rank()) + stage * (kUnits * U::kBytes);
    to += kRowBytes + Cluster::rank() * kUnits * U::kBytes;
#pragma unroll 1
    for (int n = n_live(item) - Cluster::rank(); n > 0; n -= Cluster::kBlocks) {
      if constexpr (Cluster::kBlocks > 1)
        copy_bulk_to_all(to, from, n_bytes, barrier, (1 << Cluster::kBlocks) - 1);
      else
        copy_bulk(to, from, n_bytes, barrier);
      from += Cluster::kBlocks * tile_bytes;
      to += Cluster::kBlocks * kUnits * U::kBytes;
    }
  }
  __device__ __forceinline__ void copy_rows(const WideItem& item, int stage, uint32_t to, uint32_t barrier) const {
#pragma unroll
    for (int i = 0; i < kColumns / 64; ++i)
      copy_box(to + i * kRows * 128, launch.rows, stage * kColumns + i * 64, item.row_tile * kRows, barrier);
  }

  // Stages of k that an item has.
  __device__ __forceinline__ int first_stage(const WideItem& item) const { return item.first_slice * (kSliceColumns / kColumns); }
  __device__ __forceinline__ int end_stage(const WideItem& item) const {
    return min(item.end_slice * (kSliceColumns / kColumns), (units_per_tile + kUnits - 1) / kUnits);
  }

  // By one thread. Weights that no other block shares do not depend on earlier launches or on the cluster: those of the first item come
  // first. Returns their stages.
  __device__ __forceinline__ int copy_early(const Ring& ring, int n_slices, int n_row_tiles) const {
    const int index = Cluster::first_item();
    if (Cluster::kBlocks > 1 || index >= Cluster::n_items(launch, n_row_tiles)) return 0;
    const WideItem item = wide_item<Cluster>(launch, index, n_row_tiles, n_slices);
    const int first = first_stage(item), n = min(ring.n_stages, end_stage(item) - first);
    for (int i = 0; i < n; ++i) {
      expect_bytes(ring.full_at + i * 8, n_live(item) * unit_bytes(first + i));
      copy_weights(item, first + i, ring.stages_at + i * ring.stage_bytes, ring.full_at + i * 8);
    }
    return n;
  }

  __device__ __forceinline__ void run(Ring ring, int n_slices, int n_row_tiles, int n_early) const {
    const int n_items = Cluster::n_items(launch, n_row_tiles);
    int n = 0;
    for (int index = Cluster::first_item(); index < n_items; index += Cluster::stride()) {
      const WideItem item = wide_item<Cluster>(launch, index, n_row_tiles, n_slices);
      const int end = end_stage(item);
#pragma unroll 1
      for (int stage = first_stage(item); stage < end; ++stage, ++n, ring.next()) {
        if (n >= ring.n_stages) wait_barrier(ring.empty(), ring.parity ^ 1);
        const bool has_weights = n < n_early;
        arrive_expecting(ring.full(), kRowBytes + (has_weights ? 0 : n_live(item) * unit_bytes(stage)));
        if (!has_weights) copy_weights(item, stage, ring.at(), ring.full());
        copy_rows(item, stage, ring.at(), ring.full());
      }
    }
  }
};

}  // namespace kvik::cuda
