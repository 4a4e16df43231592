#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/common.cuh"

// The largest logits of a row: a block per row, or a cluster of blocks that look at parts of it and of which the first one chooses.
namespace kvik::cuda {
namespace {

constexpr int kListRoom = 4096;

// Larger floats have larger keys; NaN has that of -infinity, and both zeros have one.
__device__ __forceinline__ uint32_t key_of(float x) {
  const uint32_t bits = bits_of(x == x ? x + 0.0f : -infinity());
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float value_of(uint32_t key) { return float_of(key >> 31 != 0 ? key & 0x7fffffffu : ~key); }

template <class T>
__device__ void sort_down(T* items, int n) {  // a power of two
  for (int size = 2; size <= n; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      for (int i = threadIdx.x; i < n / 2; i += kChooseThreads) {
        const int a = i / step * 2 * step + i % step, b = a + step;
        const bool down = (a & size) == 0;
        const T x = items[a], y = items[b];
        if ((x < y) == down) items[a] = y, items[b] = x;
      }
      __syncthreads();
    }
  }
}

// fn(index, logit) for all logits, with several loads in flight.
template <class Fn>
__device__ __forceinline__ void for_logits(const float* logits, int n, Fn fn) {
  constexpr int kBatch = 6;
  const auto* fours = reinterpret_cast<const float4*>(logits);  // rows are 16-byte aligned
  for (int base = threadIdx.x; base < n / 4; base += kBatch * kChooseThreads) {
    float4 x[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (base + k * kChooseThreads < n / 4) x[k] = fours[base + k * kChooseThreads];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = (base + k * kChooseThreads) * 4;
      if (i / 4 < n / 4) fn(i, x[k].x), fn(i + 1, x[k].y), fn(i + 2, x[k].z), fn(i + 3, x[k].w);
    }
  }
  for (int i = n / 4 * 4 + threadIdx.x; i < n; i += kChooseThreads) fn(i, logits[i]);
}

__device__ int count_from(const float* logits, int n, uint32_t least, int* shared) {
  int count = 0;
  for_logits(logits, n, [&](int, float x) { count += key_of(x) >= least ? 1 : 0; });
  __syncthreads();
  if (threadIdx.x == 0) *shared = 0;
  __syncthreads();
  count = __reduce_add_sync(~0u, count);
  if (threadIdx.x % 32 == 0) atomicAdd(shared, count);
  __syncthreads();
  return *shared;
}

// Key and id of every logit from `least` on, in no order. Returns how many there are; only kListRoom are kept. `largest`: the largest key
// among the thread's own logits, which need no second look if it is too small.
__device__ int collect(const float* logits, int n, uint32_t least, uint32_t largest, uint64_t* list, int* shared, int first = 0) {
  __syncthreads();
  if (threadIdx.x == 0) *shared = 0;
  __syncthreads();
  if (largest >= least) {
    for_logits(logits, n, [&](int i, float x) {
      const uint32_t key = key_of(x);
      if (key < least) return;
      const int at = atomicAdd(shared, 1);
      if (at < kListRoom) list[at] = static_cast<uint64_t>(key) << 32 | static_cast<uint32_t>(~(first + i));
    });
  }
  __syncthreads();
  return *shared;
}

// The largest key that `top` logits reach.
__device__ uint32_t find_least(const float* logits, int n, int top, int* shared) {
  uint32_t least = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t tried = least | 1u << bit;
    if (count_from(logits, n, tried, shared) >= top) least = tried;
  }
  return least;
}

// A key that at least `top` logits reach, and few more do: the top-th largest of what the threads find. `largest`: what this thread finds.
__device__ uint32_t bound(const float* logits, int n, int top, uint32_t* keys, uint32_t& largest) {
  uint32_t found = 0, least = 0;
  for_logits(logits, n, [&](int, float x) { found = max(found, key_of(x)); });
  largest = found;
  if (top > 1) {
    keys[threadIdx.x] = found;
    __syncthreads();
    sort_down(keys, kChooseThreads);
    return top > kChooseThreads ? 0 : keys[top - 1];
  }
  found = __reduce_max_sync(~0u, found);
  if (threadIdx.x % 32 == 0) keys[threadIdx.x / 32] = found;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kChooseThreads / 32; ++i) least = max(least, keys[i]);
  return least;
}

template <class T>
__device__ __forceinline__ T* of_block(T* own, int rank) {
  uint64_t there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(reinterpret_cast<uint64_t>(own)), "r"(rank));
  return reinterpret_cast<T*>(there);
}

__device__ __forceinline__ int cluster_size() {
  int n;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(n));
  return n;
}

// As collect(bound()), by a cluster: the first block gets the list of all parts of the row.
__device__ int collect_together(const float* logits, int n, int top, uint64_t* list, int* counter, int n_blocks) {
  __shared__ uint32_t part_least;
  const int rank = blockIdx.x % n_blocks, per_block = ((n + 3) / 4 + n_blocks - 1) / n_blocks * 4;
  const int begin = min(rank * per_block, n), size = min(begin + per_block, n) - begin;
  uint32_t largest;
  const uint32_t own_least = bound(logits + begin, size, top, reinterpret_cast<uint32_t*>(list), largest);
  if (threadIdx.x == 0) part_least = own_least;
  arrive_at_cluster();
  wait_for_cluster();
  const int lane = threadIdx.x % 32;  // reads what block `lane` has: memory of other blocks is far away
  const uint32_t least = __reduce_max_sync(~0u, lane < n_blocks ? *of_block(&part_least, lane) : 0u);
  const int own = collect(logits + begin, size, least, largest, list, counter, begin);
  arrive_at_cluster();
  wait_for_cluster();
  int all = own;
  if (rank == 0) {
    const int counts = lane < n_blocks ? *of_block(counter, lane) : 0;
    for (int i = 1; i < n_blocks; ++i) {
      const int more = __shfl_sync(~0u, counts, i);
      if (more == 0) continue;
      for (int k = threadIdx.x; k < more && all + more <= kListRoom; k += kChooseThreads) list[all + k] = of_block(list, i)[k];
      all += more;
    }
  }
  arrive_at_cluster();  // others may go on when they have been read
  wait_for_cluster();
  return all;
}

__device__ __forceinline__ int32_t id_of(uint64_t item) { return static_cast<int32_t>(~static_cast<uint32_t>(item)); }
__device__ __forceinline__ void set_largest(const Choose& step, int row, int32_t id) {
  if (step.largest != Address::kNone) pointer<int32_t>(step.largest)[row] = id;
}

template <bool kTogether>
__device__ void choose(const Choose& step, int row, int n_blocks) {
  __shared__ uint64_t list[kListRoom];
  __shared__ int counter;
  const int top = min(step.top, step.n);
  const RowAt where{pointer<Row>(step.rows.rows) + row, row};
  const float* logits = row_of<float>(step.logits, where);
  auto* out = row_of<unsigned char>(step.out, where);
  constexpr uint32_t kAny = ~0u;
  uint32_t least = 0;
  int n;
  if constexpr (kTogether) {
    n = collect_together(logits, step.n, top, list, &counter, n_blocks);
    if (blockIdx.x % n_blocks != 0) return;
  } else {
    uint32_t largest = kAny;
    if (step.n > kListRoom) least = bound(logits, step.n, top, reinterpret_cast<uint32_t*>(list), largest);
    n = collect(logits, step.n, least, largest, list, &counter);
  }
  if (n > kListRoom) {
    least = find_least(logits, step.n, top, &counter);
    n = collect(logits, step.n, least, kAny, list, &counter);
    if (n > kListRoom || n > step.room) {
      if (threadIdx.x == 0) *reinterpret_cast<int32_t*>(out) = n, set_largest(step, row, 0);
      return;
    }
  }
  int size = 2;
  while (size < n) size *= 2;
  for (int i = n + threadIdx.x; i < size; i += kChooseThreads) list[i] = 0;
  __syncthreads();
  sort_down(list, size);
  const auto last = static_cast<uint32_t>(list[top - 1] >> 32);
  int with_ties = 0;
  for (int i = threadIdx.x; i < n; i += kChooseThreads) with_ties += static_cast<uint32_t>(list[i] >> 32) >= last ? 1 : 0;
  if (threadIdx.x == 0) counter = 0;
  __syncthreads();
  with_ties = __reduce_add_sync(~0u, with_ties);
  if (threadIdx.x % 32 == 0) atomicAdd(&counter, with_ties);
  __syncthreads();
  with_ties = counter;
  if (threadIdx.x == 0) {
    *reinterpret_cast<int32_t*>(out) = with_ties;
    set_largest(step, row, with_ties > step.room ? 0 : id_of(list[0]));
  }
  if (with_ties > step.room) return;
  auto* choices = reinterpret_cast<Choice*>(out + 16);
  for (int i = threadIdx.x; i < with_ties; i += kChooseThreads)
    choices[i] = {value_of(static_cast<uint32_t>(list[i] >> 32)), id_of(list[i])};
}

}  // namespace
}  // namespace kvik::cuda

extern "C" __global__ void __launch_bounds__(kvik::cuda::kChooseThreads)
    choose_rows(const __grid_constant__ kvik::cuda::ChooseLaunch launch) {
  using namespace kvik::cuda;
  start_next();
  wait_for_previous();
  const int n_rows = row_count(launch.step.rows);
  for (int row = blockIdx.x; row < n_rows; row += gridDim.x) {
    choose<false>(launch.step, row, 1);
    __syncthreads();
  }
}
extern "C" __global__ void __launch_bounds__(kvik::cuda::kChooseThreads)
    choose_together(const __grid_constant__ kvik::cuda::ChooseLaunch launch) {
  using namespace kvik::cuda;
  start_next();
  wait_for_previous();
  const int n_rows = row_count(launch.step.rows);
  const int n_blocks = cluster_size();
  for (int row = blockIdx.x / n_blocks; row < n_rows; row += gridDim.x / n_blocks) {
    choose<true>(launch.step, row, n_blocks);
    __syncthreads();
  }
}
