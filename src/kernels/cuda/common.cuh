#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/launches.h"
#include "kernels/device/math.h"
#include "kernels/device/order.h"

// What kernels share. Global loads go past L1 (-dlcm=cg): launches overlap, and L1 may hold what the launch before has overwritten.
namespace kvik::cuda {

using namespace kvik::device;

// The next launch may start; it waits for this one's memory where it says so itself.
__device__ __forceinline__ void start_next() { asm volatile("griddepcontrol.launch_dependents;"); }
// Everything that earlier launches wrote is visible behind this. Every block calls it, even one with nothing to do.
__device__ __forceinline__ void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

template <class T>
__device__ __forceinline__ T* pointer(Address address, int64_t n_bytes = 0) {
  return reinterpret_cast<T*>(static_cast<uint64_t>(address) + n_bytes);
}

struct RowAt {
  const Row* row;
  int64_t index;
};

template <class T>
__device__ __forceinline__ T* row_of(const View& view, const RowAt& r) {
  if (!view.by_position) return pointer<T>(view.base, r.index * view.stride);
  const bool beyond = view.beyond != Address::kNone && r.row->beyond != 0;
  return pointer<T>(beyond ? view.beyond : view.base, r.row->position * view.stride);
}

__device__ __forceinline__ int row_count(const Rows& rows) { return min(*pointer<int32_t>(rows.n_rows), rows.most); }

__device__ __forceinline__ bool is_selected(const Selection& selection, int64_t row) {
  return selection.base == Address::kNone || *pointer<int32_t>(selection.base, row * selection.stride) != 0;
}

__device__ __forceinline__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// Whether this is the last of `last` + 1 arrivals. What the block wrote before its last barrier is visible to the one that is, after one
// more.
__device__ __forceinline__ bool arrives_last(uint32_t* ticket, uint32_t last) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(ticket), "r"(last) : "memory");
  return before == last;
}

// 16 bytes from memory into shared memory, or zeros.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
template <int kTo, int kFrom>  // bytes, part of the instruction
__device__ __forceinline__ void copy_async_ahead(uint32_t to, uint64_t from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0+%3], [%1+%4], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0), "n"(kTo), "n"(kFrom)
               : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;"); }
template <int kLeft>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

// One step of 16 products: c += a . b
__device__ __forceinline__ void mma(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint16_t half_bits(float x) { return __half_as_ushort(__float2half_rn(x)); }
__device__ __forceinline__ float half_value(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }

}  // namespace kvik::cuda
