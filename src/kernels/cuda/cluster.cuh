#pragma once

#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/common.cuh"

// Blocks that run together and write into each other's shared memory. Only a launch with clusters may do so, even within a block.
namespace kvik::cuda {

// The others of the cluster may write to what this block has set up before; no other memory is ordered. Warps call it as a whole.
__device__ __forceinline__ void let_cluster_send() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }

// Shared memory that other blocks fill: counts bytes.
struct Inbox {
  uint64_t barrier;

  // By one thread, before let_cluster_send().
  __device__ __forceinline__ void set_up() {
    init_barrier(shared_address(&barrier), 1);
    publish_barriers();
  }
  // By one thread, once.
  __device__ __forceinline__ void expect(int n_bytes) { arrive_expecting(shared_address(&barrier), n_bytes); }
  __device__ __forceinline__ void wait() { wait_barrier(shared_address(&barrier), 0); }
  // 16 bytes to where the block of that rank has what this block has at `address`, and their count to its inbox.
  __device__ __forceinline__ void send(uint32_t address, int rank, float4 x) {
    uint32_t there, counter;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counter) : "r"(shared_address(&barrier)), "r"(rank));
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(there), "f"(x.x),
                 "f"(x.y), "f"(x.z), "f"(x.w), "r"(counter)
                 : "memory");
  }
};

}  // namespace kvik::cuda
