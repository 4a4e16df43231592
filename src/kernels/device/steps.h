#pragma once

#include <cstdint>

#include "kernels/ops.h"

// What a device executes: plain structs over its addresses. Sizes and addresses are fixed when a step is made; the number of rows, their
// positions and their pages are read from the call block in device memory, so that a recorded list of steps serves every later call of its
// size. Kernels include this: no inline functions, no members.
namespace kvik::device {

enum class Address : uint64_t { kNone = 0 };  // the host never dereferences it

// ---- the call block ----

// One row of a call.
struct Row {
  int64_t token;
  int32_t position;
  int32_t slot;                      // its sequence: of page tables and registers
  int32_t source_slot;               // of the page table of its source
  int32_t n_keys, n_source;          // that attention without a causal mask sees; positions of the source
  int32_t first_branch, n_branches;  // in the list of branches: slots whose pages get its keys and values too
  int32_t beyond;                    // 1: rows of position tables are taken from View::beyond
};

// The rows that a step is for: those of the call, or those that want logits.
struct Rows {
  Address rows = Address::kNone;    // Row[most]
  Address n_rows = Address::kNone;  // int32
  int32_t most = 0;                 // for which launches are sized
  bool apart = false;               // each row is of a sequence of its own, and none sees what another one appends
};

// Consecutive rows of one sequence with consecutive positions: they may share the reading of keys and values.
struct RowGroup {
  int32_t first_row, n_rows;
};
struct RowGroups {
  Address groups = Address::kNone;    // RowGroup[most]
  Address n_groups = Address::kNone;  // int32
  int32_t most = 0;
  int32_t most_rows = 1;  // of a group
};

// A word to be set before the rows run: an entry of a page table or of a register table.
struct Patch {
  Address at;
  uint64_t value;
};

// ---- operands ----

// The bytes of a row: of a value (base + row * stride), of a constant (stride 0), or of a position table.
struct View {
  Address base = Address::kNone;
  int64_t stride = 0;               // bytes
  Address beyond = Address::kNone;  // by position only: the table of long sequences; none: base
  bool by_position = false;         // base + position * stride
};

// Rows that have a value are those whose int32 here is not 0. base = kNone: all rows.
struct Selection {
  Address base = Address::kNone;
  int64_t stride = 0;
};

// How an operand of `groups` times `size / groups` elements is read; see native::Spread.
enum class Spread : uint8_t { kAll, kEvery, kPerGroup, kOne };

// How a matrix is packed (units.h). Codes of kQ8 and kQ4 have f16 scales and no zero point but 8; those of kQ8Zero and kQ4Zero have f32
// scales and zero points.
enum class WeightFormat : uint8_t { kF16, kF32, kQ8, kQ4, kQ8Zero, kQ4Zero };

struct Weights {
  Address units = Address::kNone;
  Address scales = Address::kNone;  // f32 [n], powers of two that undo exponents; none: all are 1
  WeightFormat format = WeightFormat::kF16;
  int32_t k = 0, n = 0;
};

// Keys and values of one layer in a page of 32 positions, for each KV head: keys [planes][32][key_stride], values
// [planes][32][value_stride], all f16.
struct KvLayout {
  int32_t n_heads = 0, key_dim = 0, value_dim = 0;
  int32_t key_stride = 0, value_stride = 0;  // elements, multiples of 8
  int32_t planes = 1;                        // 2: f32 as high + low / 2048
  int64_t values_offset = 0;                 // bytes, from the start of a head
  int64_t head_bytes = 0;
  int64_t page_bytes = 0;  // of the layer
};

struct PageTable {
  Address pages = Address::kNone;  // Address [slots][n_pages]
  int64_t n_pages = 0;
};

// ---- steps ----

// Copies the call block and applies patches. Before the rows of a call. `from`, patches and the numbers may be in memory that
// Device::pinned() gave.
struct Begin {
  Address to = Address::kNone, from = Address::kNone;  // 16-byte aligned
  int64_t n_bytes = 0;                                 // a multiple of 16
  Address patches = Address::kNone;                    // Patch[]
  Address n_patches = Address::kNone;                  // int32
  // The tokens of the first rows may be those that the call before has chosen. none: they never are.
  Address n_continued = Address::kNone;  // int32: how many
  Address chosen = Address::kNone;       // int32[]: as Choose::largest
  int64_t rows_offset = 0;               // bytes, of Row[] in the block; a multiple of 8
};

struct Embed {  // out = column `token` of the weights
  Rows rows;
  Selection selection;
  View token;  // i64, or i32
  bool narrow = false;
  Weights weights;
  View out;                        // f32 [k]
  Address error = Address::kNone;  // int32, becomes 1 if a token is not in 0 … n - 1 (or -n … -1)
};

// f32 to f16 with a power of two as scale, such that the largest magnitude is in [2^14, 2^15). Two planes: high, then low.
struct ToHalf {
  Rows rows;
  Selection selection;
  View x;                // f32 [parts][k]
  int32_t parts = 1;     // each with a scale of its own
  int32_t k = 0;         // of a part
  int32_t planes = 1;    // 1 or 2
  int32_t padded_k = 0;  // a multiple of 32: zeros behind k
  View out;              // f16 [parts][planes][padded_k]
  View scale;            // f32 [parts]: what a product is multiplied by
};

// out[part][n] = weights . x[part] (* scales) (+ bias) (+ residual)
struct Matrix {
  Rows rows;
  Selection selection;
  int32_t parts = 1;
  View x;      // as ToHalf::out; two planes if the weights are kF32
  View scale;  // as ToHalf::scale
  Weights weights;
  Address bias = Address::kNone;  // f32 [n]
  View residual;                  // f32 [parts][n] or none
  View out;                       // f32 [parts][n]
};

struct Elementwise {
  enum class Kind : uint8_t { kUnary, kBinary, kGate, kClip, kWhere };
  Rows rows;
  Selection selection;
  Kind kind = Kind::kUnary;
  Unary unary = Unary::kIdentity;  // kGate: unary(in[0]) * in[1]
  Binary binary = Binary::kAdd;
  float low = 0, high = 0;  // kClip
  View in[3];               // f32; kWhere: condition, yes, no
  Spread spread[3] = {Spread::kAll, Spread::kAll, Spread::kAll};
  int64_t n = 0, groups = 1;
  View out;
};

struct Norm {  // x, weight and bias as in native::NormOp
  Rows rows;
  Selection selection;
  View x, weight, bias, out;  // weight, bias: [n / groups] or none
  int64_t n = 0, groups = 1;
  bool centered = false;
  float epsilon = 0;
};

struct Softmax {
  Rows rows;
  Selection selection;
  View x, out;
  int64_t n = 0, groups = 1;
  bool log = false;
};

struct Reduction {  // each group to one element
  Rows rows;
  Selection selection;
  Reduce op = Reduce::kSum;
  View x, out;
  int64_t n = 0, groups = 1;
};

struct Rotary {
  Rows rows;
  Selection selection;
  View x, cos, sin, out;  // cos, sin: f32 [n_pairs]
  int64_t n_heads = 1, head_dim = 0, n_pairs = 0;
  bool interleaved = false;
};

struct MoveRun {
  int32_t input;  // of Move::inputs
  int32_t from, to, count;
};
struct Move {
  Rows rows;
  Selection selection;
  Address inputs = Address::kNone;  // View[]
  Address runs = Address::kNone;    // MoveRun[]
  int32_t n_runs = 0;
  int32_t element_bytes = 4;  // 1, 2, 4 or 8
  View out;
};

struct Append {
  Rows rows;
  Selection selection;
  View k, v;  // f32 [n_heads][key_dim], [n_heads][value_dim]
  PageTable pages;
  Address branches = Address::kNone;  // int32 slots; see Row
  bool from_source = false;           // by Row::source_slot
  KvLayout layout;
  int64_t page_offset = 0;  // of the layer
};

// Scores are q.k * scale, rounded, capped, plus biases: as native::AttentionSpec says. Weights that are rounded have no device kernel.
struct AttendRule {
  float scale = 1.0f;
  float soft_cap = 0.0f;                   // 0: none
  Address roundings = Address::kNone;      // Rounding[]
  Address slopes = Address::kNone;         // f32 [n_heads]
  Address distance_bias = Address::kNone;  // f32 [n_heads][n_distances]
  Address sinks = Address::kNone;          // f32 [n_heads], for MergeSpans
  int32_t n_roundings = 0, n_distances = 0;
  int32_t first_distance = 0;
  int32_t window = 0;  // 0: all
  bool causal = true, from_source = false;
};

// What one span, group of spans or whole sequence adds for one row and head: the largest score, the sum of weights, weighted values.
//   parts  f32 [rows][n_heads][n_parts][2 + value_dim]
struct AttendParts {
  Address parts = Address::kNone;
  int32_t n_parts = 0;       // room for each row and head
  int32_t spans_a_part = 1;  // 1 or 8 (kSpanGroupPositions)
};

struct Attend {
  Rows rows;
  RowGroups groups;
  View q;  // f32 [n_heads][key_dim]
  PageTable pages;
  KvLayout layout;
  int64_t page_offset = 0;
  int32_t n_heads = 0;
  int32_t most_heads = 0;                // of a KV head
  Address heads = Address::kNone;        // int32 [n_heads]: query heads, by KV head
  Address first_heads = Address::kNone;  // int32 [n_kv_heads + 1], into `heads`
  AttendRule rule;
  AttendParts parts;
};

// Merges the parts that Attend left. out: f32 [n_heads][value_dim]
struct MergeSpans {
  Rows rows;
  int32_t n_heads = 0, value_dim = 0;
  AttendRule rule;
  AttendParts parts;
  View out;
};

struct RegisterTable {
  Address registers = Address::kNone;  // Address [slots][n_registers]
  int32_t n_registers = 0;
};
struct Register {  // one row per sequence
  Rows rows;
  RegisterTable table;
  int32_t index = 0;
  bool write = false;  // the register, otherwise the value
  int64_t n_bytes = 0;
  View value;
};

struct GatherRows {                 // to[i] = from[chosen[i]]
  Rows rows;                        // of `to`
  Address chosen = Address::kNone;  // int32[]
  View from, to;
  int64_t n_bytes = 0;  // a multiple of 4
};

// The largest logits of each row, by value and then by id, and how many there are with ties: Choice[room] behind an int32 n (16 bytes). If
// n is more than there is room for, the row has too many ties.
struct Choice {
  float logit;
  int32_t id;
};
struct Choose {
  Rows rows;
  View logits;  // f32 [n]; NaN counts as the smallest
  int32_t n = 0, top = 1, room = 1;
  View out;
  Address largest = Address::kNone;  // int32[rows]: the id of the first choice, or 0 if the choices do not fit; none: not written
};

struct CopyBytes {
  Address to = Address::kNone, from = Address::kNone;
  int64_t n_bytes = 0;
};
}  // namespace kvik::device
