#include "kernels/cuda/cache_steps.cuh"
#include "kernels/cuda/row_steps.cuh"

using namespace kvik::cuda;

namespace {

template <class Step>
__device__ __forceinline__ Written run_op(const RowOp& op, RowMemory& memory) {
  const Step& step = *reinterpret_cast<const Step*>(op.step);
  if constexpr (requires { step.selection; }) {
    if (!is_selected(step.selection, memory.row.index)) return {};
  }
  return run_step(step, memory);
}

__device__ __forceinline__ Written run_op(const RowOp& op, RowMemory& memory) {
  switch (op.kind) {
    case RowKind::kEmbed: return run_op<kvik::device::Embed>(op, memory);
    case RowKind::kToHalf: return run_op<kvik::device::ToHalf>(op, memory);
    case RowKind::kElementwise: return run_op<kvik::device::Elementwise>(op, memory);
    case RowKind::kNorm: return run_op<kvik::device::Norm>(op, memory);
    case RowKind::kSoftmax: return run_op<kvik::device::Softmax>(op, memory);
    case RowKind::kReduction: return run_op<kvik::device::Reduction>(op, memory);
    case RowKind::kRotary: return run_op<kvik::device::Rotary>(op, memory);
    case RowKind::kMove: return run_op<kvik::device::Move>(op, memory);
    case RowKind::kAppend: return run_op<kvik::device::Append>(op, memory);
    case RowKind::kMergeSpans: return run_op<kvik::device::MergeSpans>(op, memory);
    case RowKind::kRegister: return run_op<kvik::device::Register>(op, memory);
    case RowKind::kGatherRows: return run_op<kvik::device::GatherRows>(op, memory);
  }
  return {};
}

// If the word at this offset is the token of a row that continues, it becomes what was chosen.
__device__ __forceinline__ void continue_row(const kvik::device::Begin& step, int64_t offset, int n_continued, unsigned long long& word) {
  constexpr int64_t kRowBytes = sizeof(kvik::device::Row);
  const int64_t at = offset - step.rows_offset;
  if (at >= 0 && at % kRowBytes == 0 && at / kRowBytes < n_continued) word = pointer<int32_t>(step.chosen)[at / kRowBytes];
}

}  // namespace

// A block per row, one step after another: consecutive row steps share a launch, and each gives the bits it gives alone.
extern "C" __global__ void __launch_bounds__(kRowThreads) rows_program(const __grid_constant__ RowProgram program) {
  extern __shared__ __align__(16) unsigned char slots[];
  __shared__ float scratch[kRowThreads / 32 * kvik::device::kStrands + 1];
  __shared__ kvik::device::Row row;
  __shared__ RowMemory memory;
  __shared__ RowOp ops[kMostRowOps];  // arguments of a kernel are slow to read through pointers
  start_next();
  const auto* words = reinterpret_cast<const uint32_t*>(program.ops);
  for (int i = threadIdx.x; i < program.n_ops * static_cast<int>(sizeof(RowOp) / 4); i += kRowThreads)
    reinterpret_cast<uint32_t*>(ops)[i] = words[i];
  wait_for_previous();
  const auto* rows = pointer<kvik::device::Row>(program.rows.rows);
  if (threadIdx.x == 0) row = rows[blockIdx.x];  // there are at least as many as blocks
  const int n_rows = row_count(program.rows);
  for (int index = blockIdx.x; index < n_rows; index += gridDim.x) {
    if (threadIdx.x == 0) {
      if (index != blockIdx.x) row = rows[index];
      memory = {{&row, index}, slots, program.slot_bytes, {}, scratch, 0, 0, 0};
    }
    __syncthreads();
    for (int i = 0; i < program.n_ops; ++i) {
      const Written written = run_op(ops[i], memory);
      if (i + 1 < program.n_ops) {
        __syncthreads();
        if (threadIdx.x == 0) remember(memory, written);
      }
      if (i + 1 < program.n_ops || index + gridDim.x < n_rows) __syncthreads();
    }
  }
}

// The next launch starts when this one has ended: launches behind it may read tables and rows before they wait for the launch before them.
extern "C" __global__ void rows_begin(const __grid_constant__ kvik::device::Begin step) {
  wait_for_previous();
  const int thread = blockIdx.x * blockDim.x + threadIdx.x, n_threads = gridDim.x * blockDim.x;
  const int n = *pointer<int32_t>(step.n_patches);
  const int n_continued = step.n_continued == Address::kNone ? 0 : *pointer<int32_t>(step.n_continued);
  for (int64_t i = thread; i < step.n_bytes / 16; i += n_threads) {
    ulonglong2 words = pointer<ulonglong2>(step.from)[i];
    if (n_continued > 0) {
      continue_row(step, i * 16, n_continued, words.x);
      continue_row(step, i * 16 + 8, n_continued, words.y);
    }
    pointer<ulonglong2>(step.to)[i] = words;
  }
  for (int i = thread; i < n; i += n_threads) {
    const kvik::device::Patch patch = pointer<kvik::device::Patch>(step.patches)[i];
    *pointer<uint64_t>(patch.at) = patch.value;
  }
}
