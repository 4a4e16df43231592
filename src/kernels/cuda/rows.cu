#include "kernels/cuda/cache_steps.cuh"
#include "kernels/cuda/row_steps.cuh"

using namespace kvik::cuda;

namespace {

template <class Step>
__device__ __forceinline__ void run_op(const RowOp& op, const RowAt& row, float* shared) {
  const Step& step = *reinterpret_cast<const Step*>(op.step);
  if constexpr (requires { step.selection; }) {
    if (!is_selected(step.selection, row.index)) return;
  }
  run_step(step, row, shared);
}

}  // namespace

// A block per row, one step after another: consecutive row steps share a launch, and each gives the bits it gives alone.
extern "C" __global__ void __launch_bounds__(kRowThreads) row_program(const __grid_constant__ RowProgram program) {
  __shared__ float shared[kvik::device::kStrands + 1];
  start_next();
  wait_for_previous();
  const int n_rows = row_count(program.rows);
  for (int index = blockIdx.x; index < n_rows; index += gridDim.x) {
    const RowAt row{pointer<kvik::device::Row>(program.rows.rows) + index, index};
    for (int i = 0; i < program.n_ops; ++i) {
      const RowOp& op = program.ops[i];
      switch (op.kind) {
        case RowKind::kEmbed: run_op<kvik::device::Embed>(op, row, shared); break;
        case RowKind::kToHalf: run_op<kvik::device::ToHalf>(op, row, shared); break;
        case RowKind::kElementwise: run_op<kvik::device::Elementwise>(op, row, shared); break;
        case RowKind::kNorm: run_op<kvik::device::Norm>(op, row, shared); break;
        case RowKind::kSoftmax: run_op<kvik::device::Softmax>(op, row, shared); break;
        case RowKind::kReduction: run_op<kvik::device::Reduction>(op, row, shared); break;
        case RowKind::kRotary: run_op<kvik::device::Rotary>(op, row, shared); break;
        case RowKind::kMove: run_op<kvik::device::Move>(op, row, shared); break;
        case RowKind::kAppend: run_op<kvik::device::Append>(op, row, shared); break;
        case RowKind::kMergeSpans: run_op<kvik::device::MergeSpans>(op, row, shared); break;
        case RowKind::kRegister: run_op<kvik::device::Register>(op, row, shared); break;
        case RowKind::kGatherRows: run_op<kvik::device::GatherRows>(op, row, shared); break;
      }
      __syncthreads();
    }
  }
}

extern "C" __global__ void begin_call(const __grid_constant__ kvik::device::Begin step) {
  start_next();
  wait_for_previous();
  const int n = *pointer<int32_t>(step.n_patches);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const kvik::device::Patch patch = pointer<kvik::device::Patch>(step.patches)[i];
    *pointer<uint64_t>(patch.at) = patch.value;
  }
}
