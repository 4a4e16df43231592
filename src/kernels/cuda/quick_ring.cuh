#pragma once

#include "kernels/cuda/stream_ring.cuh"

// What a block of a quick product multiplies, and the ring of slices of weights that each of its warps has, as stream_ring.cuh has them.
namespace kvik::cuda {

constexpr int kSlicesAGroup = kGroupColumns / kSliceColumns;

// A block's items: the common ones, then (kSplit) those of the last group.
struct QuickWork {
  int first, n;            // common items
  int first_rest, n_rest;  // tiles
  int group, tile;         // kSplit: of the first common item

  __device__ __forceinline__ QuickWork(const QuickLaunch& launch, bool is_split) {
    const int block = blockIdx.x, larger = launch.n_larger_blocks;
    first = block * launch.items_per_block + min(block, larger);
    n = launch.items_per_block + (block < larger ? 1 : 0);
    first_rest = n_rest = group = 0, tile = first;
    if (!is_split) return;
    group = first / launch.n_tiles, tile = first - group * launch.n_tiles;
    if (block < larger) {
      first_rest = block * launch.rest_of_larger + min(block, launch.n_more_of_larger);
      n_rest = launch.rest_of_larger + (block < launch.n_more_of_larger ? 1 : 0);
    } else {
      const int place = block - larger;
      first_rest =
          larger * launch.rest_of_larger + launch.n_more_of_larger + place * launch.rest_of_others + min(place, launch.n_more_of_others);
      n_rest = launch.rest_of_others + (place < launch.n_more_of_others ? 1 : 0);
    }
  }
};

// A slice of an item, and the next ones of the same warp.
template <QuickKind kKind>
struct QuickCursor {
  int item, slice, size;  // of the block; of the item, which has `size`
  int tile, group;

  __device__ __forceinline__ QuickCursor(const QuickLaunch& launch, const QuickWork& work)
      : item(0), slice(0), tile(work.tile), group(work.group) {
    size = kKind == QuickKind::kSplit ? kSlicesAGroup : kKind == QuickKind::kGated ? 2 * launch.n_slices : launch.n_slices;
    if (kKind == QuickKind::kSplit && work.n == 0) begin_rest(launch, work);
  }
  __device__ __forceinline__ void begin_rest(const QuickLaunch& launch, const QuickWork& work) {
    size = max(1, launch.rest_slices), tile = work.first_rest, group = launch.n_slices / kSlicesAGroup;
  }
  __device__ __forceinline__ void skip(int n, const QuickLaunch& launch, const QuickWork& work) {
    slice += n;
    while (slice >= size) {
      slice -= size;
      ++item, ++tile;
      if constexpr (kKind == QuickKind::kSplit) {
        if (item == work.n) begin_rest(launch, work);
        if (tile == launch.n_tiles) tile = 0, ++group;
      }
    }
  }
  __device__ __forceinline__ bool is_second(const QuickLaunch& launch) const {
    return kKind == QuickKind::kGated && slice >= launch.n_slices;
  }
  __device__ __forceinline__ int matrix_slice(const QuickLaunch& launch) const {
    if constexpr (kKind == QuickKind::kSplit) return group * kSlicesAGroup + slice;
    return is_second(launch) ? slice - launch.n_slices : slice;
  }
  __device__ __forceinline__ int matrix_tile(const QuickLaunch& launch) const { return is_second(launch) ? tile + launch.n_tiles : tile; }
};

template <WeightFormat kFormat, QuickKind kKind>
class QuickRing {
 public:
  using U = Unit<kFormat>;
  static constexpr int kUnits = kSliceColumns / U::kColumns, kSlotBytes = stream_slice_bytes(kFormat);

  // Copies begin at once. `first`: the warp's first slice.
  __device__ __forceinline__ QuickRing(const QuickLaunch& launch, const QuickWork& work, unsigned char* memory, uint64_t* barriers,
                                       const QuickCursor<kKind>& first)
      : launch_(launch), work_(work), ahead_(first) {
    const int warp = threadIdx.x / 32;
    memory_ = memory + warp * launch.ring_slots * kSlotBytes;
    barriers_ = shared_address(barriers + warp * kMostQuickSlots);
    if (const int lane = threadIdx.x % 32; lane < kMostQuickSlots) {
      start_barrier(barriers_ + lane * 8);
      barriers_started();
    }
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < launch.ring_slots; ++i) fetch(i);
  }
  __device__ __forceinline__ const unsigned char* wait() const {
    wait_barrier(barriers_ + slot_ * 8, parity_);
    return memory_ + slot_ * kSlotBytes;
  }
  // All lanes have read it: the slot is for a coming one.
  __device__ __forceinline__ void release() {
    __syncwarp();
    fetch(slot_);
    if (++slot_ == launch_.ring_slots) slot_ = 0, parity_ ^= 1;
  }

 private:
  __device__ __forceinline__ void fetch(int slot) {
    if (ahead_.item >= work_.n + work_.n_rest) return;
    if (threadIdx.x % 32 == 0) {
      const int unit = ahead_.matrix_slice(launch_) * kUnits;
      const uint64_t at = (static_cast<uint64_t>(ahead_.matrix_tile(launch_)) * launch_.units_per_tile + unit) * U::kBytes;
      copy_bulk(shared_address(memory_) + slot * kSlotBytes, pointer<uint8_t>(launch_.units, static_cast<int64_t>(at)),
                min(kUnits, launch_.units_per_tile - unit) * U::kBytes, barriers_ + slot * 8, policy_);
    }
    ahead_.skip(kQuickWarps, launch_, work_);
  }

  const QuickLaunch& launch_;
  const QuickWork& work_;
  unsigned char* memory_;
  uint32_t barriers_;
  uint64_t policy_ = read_once_policy();
  QuickCursor<kKind> ahead_;  // the next slice to ask for
  int slot_ = 0;
  uint32_t parity_ = 0;
};

}  // namespace kvik::cuda
