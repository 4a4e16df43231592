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

// The most common sequences of row steps over n elements, each of which reads what the one before has made: up to two joins with other
// rows, a norm, conversion to f16. A block takes a row, whose elements stay in registers. Memory is read 16 bytes at a time.
inline constexpr int kChainJoins = 2, kChainMostThreads = 640;
struct ChainJoin {
  enum class Kind : uint32_t { kNone, kAdd, kMultiply, kGate, kUnary };
  Kind kind;
  Unary unary;  // kUnary; kGate: unary(x) * with
  device::View with, out;
};
struct ChainNorm {
  device::View weight, bias, out;  // weight, bias: constants or none
  float epsilon;
  bool centered, there;
};
struct ChainHalf {
  device::View out, scale;
  int32_t planes, padded_n;
  bool there;
};
struct ChainLaunch {
  device::Rows rows;
  int32_t n;
  device::View x;
  ChainJoin joins[kChainJoins];
  ChainNorm norm;
  ChainHalf half;
};

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

// Products of more than 8 rows with wgmma. One block per multiprocessor; an item is a run of tiles (one per warp; four more warps copy), a
// chunk of their slices and a tile of rows. Blocks of a cluster take neighboring items and share copies.
struct alignas(64) TensorMap {  // CUtensorMap: how a box of rows is copied
  uint64_t words[16];
};
struct WideLaunch {
  TensorMap rows;         // x, in boxes of 64 columns and the kernel's rows
  MatrixLaunch matrix;    // its tickets are for [tile blocks][row tiles]
  int32_t n_tiles;        // of an item
  int32_t n_tile_blocks;  // runs of tiles in all
  int32_t n_row_tiles;    // at most
  int32_t n_stages;       // of the ring
  int32_t results_at;     // bytes, in shared memory, behind the ring: what a warp writes
  int32_t totals_at;      // sums of groups, if a chunk has more than one
};
inline constexpr int kMostWideStages = 16;
inline constexpr int kWideResultRows = 32, kWideResultStride = 20;  // floats: neither rows nor columns of a warp share banks
// Columns of k in a stage of the ring, and what a tile has of them.
constexpr int wide_stage_columns(device::WeightFormat format, int n_rows) {
  return format == device::WeightFormat::kF16 && n_rows > 64 ? 64 : 128;
}
constexpr int wide_tile_bytes(device::WeightFormat format, int n_rows) {
  const int n_columns = wide_stage_columns(format, n_rows);
  return format == device::WeightFormat::kF16  ? n_columns / 32 * 1024
         : format == device::WeightFormat::kQ8 ? n_columns / 32 * 544
                                               : n_columns / 64 * 576;
}
constexpr int wide_stage_bytes(device::WeightFormat format, int n_rows, int n_tiles) {
  return (n_rows * wide_stage_columns(format, n_rows) * 2 + n_tiles * wide_tile_bytes(format, n_rows) + 1023) / 1024 * 1024;
}
constexpr int wide_most_tiles(device::WeightFormat format, int n_rows) {  // by registers
  return n_rows > 64 || (n_rows > 32 && format != device::WeightFormat::kF16) ? 8 : 12;
}

// Products of up to 8 rows, with what comes before and after them: one block per multiprocessor. An item is a tile and a chunk of its
// slices (or a pair of tiles, half the matrix apart); blocks have runs of items and deal the slices of some items at a time to their warps.
enum class StreamInput : uint8_t {
  kHalves,  // in memory
  kFloats,  // converted by every block, for the columns that it needs
  kNormed   // normed, then converted
};
struct StreamView {
  device::Address base;
  int64_t stride;  // bytes
};
// Few bytes, in about the order in which a block needs them: it begins with waiting for them.
struct StreamLaunch {
  device::Address units;
  int32_t k, n;
  int32_t n_tiles;                           // of items: half of the matrix's if they are pairs
  int32_t n_chunks;                          // more than 1: whole groups of slices, whose sums go through `parts`
  int32_t slices_per_chunk;                  // of k
  int32_t ring_slots;                        // of each warp, a slice each
  int32_t items_per_block, n_larger_blocks;  // so many have one item more
  int32_t items_per_turn;                    // whose slices are dealt to the warps at a time
  int32_t chunks_per_block;                  // that a block has rows of x for
  // Bytes in shared memory. `sums` and what the input needs are one after the other in the same place.
  int32_t rows_at, gains_at, constants_at, sums_at;  // constants_at < 0: scales and biases are read from memory
  int32_t most;                                      // rows times parts
  int32_t parts_of_row;                              // as Matrix::parts
  int32_t row_shift;                                 // room for 1 << row_shift rows in sums
  int32_t n_largest;
  StreamInput input;
  bool pairs;           // an item is two tiles: what follows is of both
  bool is_centered;     // the norm
  bool has_after;       // an elementwise step of the results, which are written too
  uint8_t own_operand;  // of that step: which is the product (of the first tile); the other is in memory (is the second tile's)
  device::Elementwise::Kind kind;
  Unary unary;
  Binary binary;
  float epsilon;
  device::Address n_rows;               // int32
  device::Address gain, gain_bias;      // of the norm, or none
  StreamView x;                         // floats, or halves
  device::Address largest_in;           // uint32 [rows][n_largest]: magnitudes of parts of the row, or none: found here
  device::Address weight_scales, bias;  // of columns, or none
  StreamView normed, halves, x_scale;   // written, unless they are the input
  StreamView other;                     // operand of the elementwise step
  StreamView out, after_out;            // results
  StreamView residual;                  // or none
  device::Selection selection;          // of rows whose results are written
  device::Address largest_out;          // as largest_in, of the results, by block; or none
  device::Address parts, tickets;       // f32 [groups][n_tiles][1 << row_shift][16]; uint32 [n_tiles], zero before and after
  float low, high;                      // of a clip
};
static_assert(sizeof(StreamLaunch) <= 456);
inline constexpr int kStreamRows = 8;
inline constexpr int kStreamQuads = 12;  // of a row, that a thread keeps in registers
inline constexpr int kStreamWarps = 8, kStreamThreads = kStreamWarps * 32;
constexpr int stream_slice_bytes(device::WeightFormat format) {
  return format == device::WeightFormat::kF16 ? 8192 : format == device::WeightFormat::kQ8 ? 8 * 544 : 4 * 576;
}
inline constexpr int kMostStreamSlots = 4;

// The common ones of those: whole rows without a selection, with a norm that has no mean and no bias. A kernel for each kind is short, and
// so is the time that it takes to start: instructions arrive from memory, too.
enum class QuickKind : uint8_t {
  kNormed,     // norm and conversion before the product
  kGated,      // the same, and silu(first half) * second half behind it
  kConverted,  // conversion before it
  kSplit  // the same of a few columns for each block, since the largest magnitude is known: k is split over blocks, by groups of slices
};
struct QuickLaunch {
  device::Address units;
  int32_t k, n;
  int32_t n_tiles, n_slices, units_per_tile;  // tiles: half of them if they are pairs
  // Items are tiles or pairs of tiles. kSplit: a group of slices of a tile, all tiles of one group before the next one; those of the last
  // group, if it is a shorter one, are dealt apart, so that blocks have equally much to do.
  int32_t items_per_block, n_larger_blocks, items_per_turn;
  int32_t rest_slices, rest_of_larger, n_more_of_larger, rest_of_others, n_more_of_others;
  int32_t ring_slots, rows_at, gains_at, sums_at;  // bytes, in shared memory
  int32_t row_stride;                              // elements
  int32_t most, row_shift, n_largest;
  float epsilon, inverse_k;
  StreamView x;
  device::Address n_rows, gain, largest_in;
  device::Address weight_scales, bias;  // of columns, or none
  StreamView normed, halves, x_scale;   // written, by one block
  StreamView out, added, sum_out;       // sum_out = out + added if it is there; kGated: the gated row
  StreamView residual;                  // or none: part of `out`
  device::Address largest_out;          // or none
  device::Address parts, tickets;       // kSplit: f32 [groups][n_tiles][1 << row_shift][16]; uint32 [n_tiles]
};
inline constexpr int kQuickWarps = 8, kQuickThreads = kQuickWarps * 32, kMostQuickSlots = 4, kMostQuickBlocks = 160;
inline constexpr float kLeastEpsilon = 1e-12f;  // of a norm in a quick kernel
// What a row may have: elements for each thread of one row, in kernels for short rows and for long ones; quads for each lane of several
// rows. Kernels for short rows are shorter: what a kernel does not execute costs time, too (docs/cuda.md).
inline constexpr int kQuickColumnsOfShort = 6, kQuickColumnsOfLong = 18, kQuickQuads = 12;

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

// Attention of rows that follow one another. An item is 64 queries of a group of rows, a KV head, and every n_splits-th part of the
// positions; blocks take items in turns.
struct PromptLaunch {
  device::Attend step;
  int32_t chunks_per_group;  // of 64 queries, at most
  int32_t n_splits;
};
inline constexpr int kPromptThreads = 128, kPromptQueries = 64;
constexpr int prompt_stride(int dim) { return dim + 8; }  // in shared memory, elements: rows begin 4 banks apart
constexpr int prompt_shared_bytes(int dim) { return (2 * 128 + kPromptQueries) * prompt_stride(dim) * 2; }
// What is rotated on its way into a launch.
struct RotaryOf {
  device::View x, cos, sin, out;
  int32_t head_dim, n_pairs;
  bool interleaved, there;
};

// Rotary and append of a row: a block each. Queries are heads that are rotated and not appended.
struct AppendLaunch {
  device::Append step;
  RotaryOf queries, keys;  // if not there, keys are as Append::k is
  int32_t n_queries;
};
inline constexpr int kAppendThreads = 256;

// Heads of one kind as quick_attend.cu and warps_attend.cu read and write them. Each row has its own, at a distance in bytes.
struct DecodeHeads {
  device::Address x;
  device::Address turned;          // after rotary, or none
  device::Address cos[2], sin[2];  // of a position; the second ones are for Row::beyond. none: not rotated
  int32_t stride, turned_stride, angle_stride;
  int32_t to, to_stride;  // in shared memory, of the first and from one to the next
  int64_t in_page;        // what is appended, in bytes
};

// Attention of rows that each have a sequence of their own: a block takes a row, up to 8 heads of a KV head, and a span. The blocks of a
// group of spans are a cluster, which merges them; the last group to finish merges the groups. Rotary and append are part of the launch.
// With a warp for each span, a block takes a group of spans.
struct DecodeLaunch {
  device::Attend step;
  device::View out;        // as MergeSpans::out
  RotaryOf queries, keys;  // if not there, as Attend::q and Append::k are
  device::Append append;
  bool appends;
  bool reads_early;                  // earlier positions, tables and rows were there before the launch before this one started
  int32_t tiles_a_kv_head;           // of 8 heads
  uint32_t tiles_inverse;            // 2^32 / tiles_a_kv_head, rounded up, if that is not 1
  device::Address tickets;           // uint32 [rows][KV heads][tiles], zero before and after; more than one group
  int32_t key_stride, value_stride;  // in shared memory, elements: rows begin 4 banks apart
  int32_t values_at, queries_at;     // bytes, in shared memory; weights come where queries were, results to be merged where keys were
  int32_t own_at;                    // warps_attend.cu: the row's own key and value, which come behind queries
  DecodeHeads heads[3];              // quick_attend.cu, warps_attend.cu: queries, keys, values
};
inline constexpr int kDecodeThreads = 256, kDecodeHeads = 8, kSpansAGroup = 8;
// Whether each warp of a decode attention takes a span by itself, if there is a kernel for it (warps_attend.cu), and with which ring.
enum class SpanWarps : uint8_t {
  kAuto,   // for many spans
  kNever,  // blocks take spans
  kShort,
  kDeep
};
// What a warp has of its span in shared memory: a ring of tiles of keys or values. A deep one is for blocks that do not share their
// multiprocessor.
struct SpanRingShape {
  int n_positions, n_slots;  // of a tile; tiles
};
constexpr SpanRingShape span_ring(int dim, bool deep) { return {dim == 64 || deep ? 32 : 16, dim == 64 && deep ? 6 : 3}; }
constexpr int span_ring_bytes(int dim, bool deep) { return span_ring(dim, deep).n_positions * span_ring(dim, deep).n_slots * dim * 2; }
constexpr int decode_most_dim(int planes) { return planes == 2 ? 128 : 256; }

struct ChooseLaunch {
  device::Choose step;
};
inline constexpr int kChooseThreads = 1024, kMostChooseBlocks = 8;  // of a row

}  // namespace kvik::cuda
