#include "kernels/cuda/lane_of_head.cuh"

// Rotary and append of many rows, as prompts have them: a block takes a row, a warp a head.
namespace kvik::cuda {
namespace {

constexpr int kWarps = kAppendThreads / 32;

template <int kPlanes>
__device__ __forceinline__ void append(const AppendLaunch& launch) {
  using Head = LaneOfHead<decode_most_dim(kPlanes)>;
  start_next();
  const Append& step = launch.step;
  const KvLayout& layout = step.layout;
  const int64_t index = blockIdx.x;
  wait_for_previous();
  const Row row = pointer<Row>(step.rows.rows)[index];  // there are at least as many as blocks
  if (index >= row_count(step.rows)) return;
  const RowAt at{&row, index};
  const int64_t slot = step.from_source ? row.source_slot : row.slot;
  const int n_tasks = launch.n_queries + 2 * layout.n_heads;
#pragma unroll 1
  for (int task = threadIdx.x / 32; task < n_tasks; task += kWarps) {
    const bool query = task < launch.n_queries, values = !query && (task - launch.n_queries) % 2 != 0;
    const int kv_head = (task - launch.n_queries) / 2, n = query ? launch.queries.head_dim : values ? layout.value_dim : layout.key_dim;
    typename Head::Turn turn;
    if (query) turn.load(launch.queries, at);
    if (!query && !values) turn.load(launch.keys, at);
    const float* x = query    ? row_of<float>(launch.queries.x, at) + task * n
                     : values ? row_of<float>(step.v, at) + kv_head * n
                              : row_of<float>(launch.keys.there ? launch.keys.x : step.k, at) + kv_head * n;
    Head head;
    head.load(x, n, turn);
    if (query) head.store(row_of<float>(launch.queries.out, at) + task * n, n);
    if (query) continue;
    if (!values && launch.keys.there) head.store(row_of<float>(launch.keys.out, at) + kv_head * n, n);
    head.clip();
    append_head<kPlanes>(step, row, slot, kv_head, values, head);
  }
}

}  // namespace
}  // namespace kvik::cuda

extern "C" __global__ void __launch_bounds__(kvik::cuda::kAppendThreads) append_1(const __grid_constant__ kvik::cuda::AppendLaunch launch) {
  kvik::cuda::append<1>(launch);
}
extern "C" __global__ void __launch_bounds__(kvik::cuda::kAppendThreads) append_2(const __grid_constant__ kvik::cuda::AppendLaunch launch) {
  kvik::cuda::append<2>(launch);
}
