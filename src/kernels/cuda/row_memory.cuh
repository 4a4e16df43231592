#pragma once

#include "kernels/cuda/common.cuh"

// What a block has of its row in shared memory. The steps of a row program write their results to memory as if each were alone, and keep a
// copy here, so that the next step does not wait for memory: a pointer may point to either.
namespace kvik::cuda {

struct Resident {
  uint64_t begin, end;  // addresses that the slot has a copy of
};

// What a step has written, and into which slot it was copied (-1: none).
struct Written {
  uint64_t begin = 0, end = 0;
  int slot = -1;
};

struct RowMemory {
  RowAt row;             // `row` is in shared memory
  unsigned char* slots;  // [kRowSlots][slot_bytes]
  int slot_bytes;
  Resident resident[kRowSlots];
  float* scratch;                     // [kStrands + 1]
  int result_slot;                    // 0 or 1, in turns; slot 2 is for inputs
  uint64_t staged_begin, staged_end;  // what the step has brought into slot 2
};

// Where the elements of a view are read: not in the slot that the step writes to.
template <class T>
__device__ __forceinline__ const T* input(const RowMemory& memory, const View& view) {
  const auto address = reinterpret_cast<uint64_t>(row_of<T>(view, memory.row));
#pragma unroll
  for (int i = 0; i < kRowSlots; ++i) {
    if (i != memory.result_slot && address >= memory.resident[i].begin && address < memory.resident[i].end)
      return reinterpret_cast<const T*>(memory.slots + i * memory.slot_bytes + (address - memory.resident[i].begin));
  }
  return reinterpret_cast<const T*>(address);
}

// The same for a step that reads n floats more than once: they are brought into shared memory first if there is room. All threads call it.
__device__ __noinline__ const float* staged_input(RowMemory& memory, const View& view, int64_t n) {
  constexpr int kBatch = 4;
  const float* from = input<float>(memory, view);
  if (__isShared(from) || n * 4 > memory.slot_bytes) return from;
  auto* to = reinterpret_cast<float*>(memory.slots + 2 * memory.slot_bytes);
#pragma unroll 1
  for (int64_t base = threadIdx.x; base < n; base += kBatch * kRowThreads) {
    float x[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (base + k * kRowThreads < n) x[k] = from[base + k * kRowThreads];
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (base + k * kRowThreads < n) to[base + k * kRowThreads] = x[k];
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    memory.staged_begin = reinterpret_cast<uint64_t>(from);
    memory.staged_end = memory.staged_begin + n * 4;
  }
  return to;
}

// Results of a step: in memory, and in a slot if they fit.
struct Result {
  float *out, *copy;
  __device__ __forceinline__ void put(int64_t i, float x) const {
    out[i] = x;
    if (copy != nullptr) copy[i] = x;
  }
};
__device__ __forceinline__ Result result(const RowMemory& memory, const View& view, int64_t n, Written& written) {
  float* out = row_of<float>(view, memory.row);
  written = {reinterpret_cast<uint64_t>(out), reinterpret_cast<uint64_t>(out + n), n * 4 <= memory.slot_bytes ? memory.result_slot : -1};
  return {out, written.slot >= 0 ? reinterpret_cast<float*>(memory.slots + written.slot * memory.slot_bytes) : nullptr};
}

// By one thread, between two barriers: slots that what was written overlaps are out of date.
__device__ __forceinline__ void remember(RowMemory& memory, const Written& written) {
  Resident* resident = memory.resident;
  if (memory.staged_end != 0) resident[2] = {memory.staged_begin, memory.staged_end};
#pragma unroll
  for (int i = 0; i < kRowSlots; ++i)
    if (resident[i].begin < written.end && written.begin < resident[i].end) resident[i] = {0, 0};
  if (written.slot >= 0) resident[written.slot] = {written.begin, written.end};
  memory.result_slot ^= 1;
  memory.staged_begin = memory.staged_end = 0;
}

}  // namespace kvik::cuda
