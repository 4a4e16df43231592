#pragma once

#include <cstdint>

#include "kernels/device/steps.h"

// What kernels take as their one argument. The host fills it; a recording keeps it.
namespace kvik::cuda {

// A step that a block does for one row; consecutive ones share a launch.
enum class RowKind : uint32_t {
  kEmbed,
  kToHalf,
  kElementwise,
  kNorm,
  kSoftmax,
  kReduction,
  kRotary,
  kMove,
  kAppend,
  kMergeSpans,
  kRegister,
  kGatherRows
};

inline constexpr int kMostRowOps = 15;
struct RowOp {
  alignas(8) unsigned char step[248];
  RowKind kind;
};
struct RowProgram {  // at most 4 KB: the argument of a kernel
  device::Rows rows;
  int32_t n_ops;
  int32_t slot_bytes;  // of each slot of shared memory (row_memory.cuh)
  RowOp ops[kMostRowOps];
};
static_assert(sizeof(RowProgram) <= 4096);
inline constexpr int kRowThreads = 512, kRowSlots = 3;

// A block takes some tiles of 16 columns (one per warp), some slices of k, and a group of rows.
constexpr int tiles_per_block(int row_groups) { return row_groups == 8 ? 8 : 4; }
struct MatrixLaunch {
  device::Matrix step;
  int32_t slices_per_chunk;  // of k; chunks are blocks of their own
  int32_t n_chunks;          // more than 1: sums go through `parts`
  bool keeps_slices;         // in `parts`: each slice, otherwise each group
  device::Address parts;     // f32 [slices or groups][row groups][tiles][8 rows x 16 columns ...]
  device::Address tickets;   // uint32 [row groups][tile blocks], zero before and after
};
inline constexpr int kMatrixStages = 3;       // slices of x in shared memory
inline constexpr int kMatrixRowStride = 264;  // elements: rows begin 4 banks apart
constexpr int matrix_shared_bytes(int row_groups, int planes) { return kMatrixStages * planes * row_groups * 8 * kMatrixRowStride * 2; }

// Products of up to 8 rows: one block per multiprocessor. An item is a tile and a chunk of its slices; blocks have equal runs of items, and
// deal the slices of some items at a time to their warps.
struct StreamLaunch {
  MatrixLaunch matrix;                   // n_chunks > 1: each slice goes through `parts`
  int32_t items_per_turn;                // whose slices are dealt to the warps at a time
  int32_t chunks_per_block;              // that a block has rows of x for
  int32_t results_at, rows_at, sums_at;  // bytes, in shared memory, behind the rings
};
constexpr int stream_warps(device::WeightFormat format) {
  return format == device::WeightFormat::kF16 ? 8 : format == device::WeightFormat::kQ8 ? 12 : 16;
}
// Of a slot in the ring of a warp, which holds two slices.
constexpr int stream_unit_bytes(device::WeightFormat format) {
  return format == device::WeightFormat::kF16 ? 1024 : format == device::WeightFormat::kQ8 ? 640 : 768;
}

// A block takes a group of rows, a KV head, and every n_splits-th part of the positions.
struct AttendLaunch {
  device::Attend step;
  int32_t n_splits;
  bool keeps_both;                                       // keys and values fit into shared memory together, otherwise they take turns
  int32_t key_stride, value_stride;                      // in shared memory, elements: 16-byte aligned, rows begin 4 banks apart
  int32_t values_at, queries_at, scores_at, weights_at;  // bytes, in shared memory
};
inline constexpr int kScoreStride = 132, kWeightStride = 136;
inline constexpr int kAttendThreads = 128;

struct ChooseLaunch {
  device::Choose step;
};
inline constexpr int kChooseThreads = 1024;

}  // namespace kvik::cuda
