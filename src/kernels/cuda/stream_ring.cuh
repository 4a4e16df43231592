#pragma once

#include "kernels/cuda/unit_formats.cuh"

// A ring of slices of weights in shared memory, for one warp: its first lane asks for coming slices, far ahead and past the ends of tiles,
// and the warp waits for nobody else.
namespace kvik::cuda {

__device__ __forceinline__ void take_unit(Unit<WeightFormat::kF16>& unit, const unsigned char* from, int lane) {
  unit.words[0] = *reinterpret_cast<const uint4*>(from + lane * 16);
  unit.words[1] = *reinterpret_cast<const uint4*>(from + 512 + lane * 16);
}
__device__ __forceinline__ void take_unit(Unit<WeightFormat::kQ8>& unit, const unsigned char* from, int lane) {
  unit.words = *reinterpret_cast<const uint4*>(from + lane * 16);
  unit.scales = *reinterpret_cast<const uint32_t*>(from + 512 + lane / 4 * 4);
}
__device__ __forceinline__ void take_unit(Unit<WeightFormat::kQ4>& unit, const unsigned char* from, int lane) {
  unit.words = *reinterpret_cast<const uint4*>(from + lane * 16);
  unit.scales[0] = *reinterpret_cast<const uint32_t*>(from + 512 + lane / 4 * 4);
  unit.scales[1] = *reinterpret_cast<const uint32_t*>(from + 544 + lane / 4 * 4);
}

__device__ __forceinline__ void start_barrier(uint32_t barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barriers_started() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void wait_barrier(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// For what is read once a token: it does not push out of L2 what others need.
__device__ __forceinline__ uint64_t read_once_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// By one thread: `barrier` is complete when the bytes have arrived.
__device__ __forceinline__ void copy_bulk(uint32_t to, const void* from, int n_bytes, uint32_t barrier, uint64_t policy) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(n_bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
               "l"(from), "r"(n_bytes), "r"(barrier), "l"(policy)
               : "memory");
}

// Slices of a block's items that a warp has: every n-th, in order.
struct StreamCursor {
  int item, slice, tile, chunk;  // slice: of the item

  __device__ __forceinline__ static int slices_of(const StreamLaunch& launch, int n_slices, int chunk) {
    if (launch.pairs) return 2 * n_slices;
    return min(launch.slices_per_chunk, n_slices - chunk * launch.slices_per_chunk);
  }
  __device__ __forceinline__ void skip(int n, const StreamLaunch& launch, int n_slices) {
    slice += n;
    for (int own = slices_of(launch, n_slices, chunk); slice >= own && own > 0; own = slices_of(launch, n_slices, chunk)) {
      slice -= own;
      ++item;
      if (++tile == launch.n_tiles) tile = 0, ++chunk;
    }
  }
  // Which tile and which slice of it.
  __device__ __forceinline__ int tile_of(const StreamLaunch& launch, int n_slices) const {
    return launch.pairs && slice >= n_slices ? tile + launch.n_tiles : tile;
  }
  __device__ __forceinline__ int slice_of(const StreamLaunch& launch, int n_slices) const {
    if (launch.pairs) return slice >= n_slices ? slice - n_slices : slice;
    return chunk * launch.slices_per_chunk + slice;
  }
};

template <WeightFormat kFormat>
class StreamRing {
 public:
  using U = Unit<kFormat>;
  static constexpr int kUnits = kSliceColumns / U::kColumns, kSlotBytes = stream_slice_bytes(kFormat);
  static_assert(kUnits * U::kBytes == kSlotBytes);

  // `memory` and `barriers` are those of the warp.
  __device__ __forceinline__ StreamRing(const StreamLaunch& launch, unsigned char* memory, uint64_t* barriers, StreamCursor first,
                                        int end_item)
      : launch_(launch), memory_(memory), barriers_(shared_address(barriers)), ahead_(first), end_item_(end_item) {
    const int k = launch.k;
    units_per_tile_ = (k + U::kColumns - 1) / U::kColumns;
    n_slices_ = (k + kSliceColumns - 1) / kSliceColumns;
    if (threadIdx.x % 32 == 0) {
#pragma unroll 1
      for (int i = 0; i < launch.ring_slots; ++i) start_barrier(barriers_ + i * 8);
      barriers_started();
    }
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < launch.ring_slots; ++i) fetch(i);
  }

  // The units of the next slice; how many there are is for the caller to know.
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
    if (ahead_.item >= end_item_) return;
    if (threadIdx.x % 32 == 0) {
      const int slice = ahead_.slice_of(launch_, n_slices_);
      const int64_t unit = static_cast<int64_t>(ahead_.tile_of(launch_, n_slices_)) * units_per_tile_ + slice * kUnits;
      const int n_units = min(kUnits, units_per_tile_ - slice * kUnits);
      copy_bulk(shared_address(memory_) + slot * kSlotBytes, pointer<uint8_t>(launch_.units, unit * U::kBytes), n_units * U::kBytes,
                barriers_ + slot * 8, policy_);
    }
    ahead_.skip(kStreamWarps, launch_, n_slices_);
  }

  const StreamLaunch& launch_;
  unsigned char* memory_;
  uint32_t barriers_;
  uint64_t policy_ = read_once_policy();
  StreamCursor ahead_;  // the next slice to ask for
  int end_item_, units_per_tile_, n_slices_;
  int slot_ = 0;
  uint32_t parity_ = 0;
};

}  // namespace kvik::cuda
