#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/native/graph/flat_graph.h"
#include "backend/native/graph/labels.h"
#include "base/token.h"
#include "kernels/ops.h"
#include "tensor/tensor.h"

// What the front of the compiler makes of a graph and its back turns into a plan: a program over one row. It is the graph at batch 1
// with one token: the nodes are the exporter's, on values whose batch and sequence axes have size 1. Right before anything is fused.
namespace kvik::native {

using RowId = int32_t;  // index into Program::values
inline constexpr RowId kNoRow = -1;

struct RowValue {
  std::string_view name;            // of the value in the graph
  DType dtype = DType::kUndefined;  // never f16, bf16 or f64: those are computed in f32
  Dims dims;                        // of one row; -1 where a selection makes it 0 or 1
};

struct Operand {
  enum class Kind : uint8_t { kNone, kRow, kConstant, kTable };
  Kind kind = Kind::kNone;
  int32_t index = -1;  // into Program::values, constants or tables
};

struct RowOp {
  enum class Kind : uint8_t {
    kNode,     // the kernel of the node on the operands
    kReshape,  // the first operand's elements under the output's dims
    kExpand,   // the first operand broadcast to the output's dims
    kAttend,   // Program::attends[attend]
  };
  Kind kind = Kind::kNode;
  onnx::NodeId node = onnx::kNoNode;  // in FlatGraph::graph; for kinds other than kNode only to name it
  std::vector<Operand> inputs;        // as the node's; kNone where omitted
  std::vector<RowId> outputs;         // as the node's; kNoRow where unwanted
  int attend = -1;
};

// A constant of the graph: an initializer, or an expression of them (a transposed, cast or dequantised weight) that nobody has
// evaluated yet: whoever packs weights looks at how it is made.
struct Constant {
  onnx::ValueId value = onnx::kNoValue;
  DType dtype = DType::kUndefined;
  Dims dims;
};

// A value that depends on the position of the row only: probing found nothing else. tables/ turns it into data.
struct PositionTable {
  std::string_view name;
  DType dtype = DType::kUndefined;
  Dims dims;  // of one row
  onnx::ValueId value = onnx::kNoValue;
  Axes axes;          // of the value
  int64_t limit = 0;  // positions it is defined for; 0: no limit was found
};

// One attention, whatever nodes it was spelled with.
struct Attend {
  bool from_source = false;  // cross attention: keys and values are rows of the source program
  int64_t n_heads = 0, n_kv_heads = 0, key_dim = 0, value_dim = 0;
  std::vector<int32_t> kv_head_of;  // [n_heads]; empty: n_heads / n_kv_heads neighbours share one

  // Which element of the row stands at [head][dim]; empty: the row is laid out so.
  RowId q = kNoRow, k = kNoRow, v = kNoRow;
  std::vector<int32_t> q_map;  // [n_heads * key_dim]
  std::vector<int32_t> k_map;  // [n_kv_heads * key_dim]
  std::vector<int32_t> v_map;  // [n_kv_heads * value_dim]
  RowId out = kNoRow;
  std::vector<int32_t> out_map;  // for each element of the output's row, which of [n_heads][value_dim]; empty: laid out so

  // Score = cap(rounded(scale * q.k)) + bias(head, distance), distance = query position - key position.
  float scale = 1.0f;
  std::vector<Rounding> score_roundings;   // one after the other; empty: not rounded
  std::vector<Rounding> weight_roundings;  // the same of what the softmax gives; no sinks then
  float soft_cap = 0.0f;                   // 0: none
  bool causal = true;                      // false: all keys of the sequence
  int64_t window = 0;                      // sees distances below it; 0: all
  std::vector<float> slopes;               // [n_heads], bias = -slope * distance; empty: none
  std::vector<float> distance_bias;  // [n_heads][n], at distance - first_distance, clamped at both ends; -inf hides a key; empty: none
  int64_t first_distance = 0;
  std::vector<float> sinks;  // [n_heads]; empty: none

  std::string words;  // "causal, window 4096", for people
  std::string node;   // for sentences

  bool operator==(const Attend&) const = default;
};

// A register of a sequence without positions (recurrent, convolution): read before and written after each row. Zero at first.
struct Register {
  RowId in = kNoRow, out = kNoRow;
};

// A value that is given for every position of the source, from the encoder's output.
struct SourceInput {
  RowId row = kNoRow;
  int port = -1;           // index into analysis::File::inputs
  int position_axis = -1;  // of the tensor that is given
};

struct Program {
  std::shared_ptr<FlatGraph> flat;       // nodes and constants
  std::shared_ptr<const Labels> labels;  // of its values, for whoever evaluates tables; null if there are none
  std::vector<RowValue> values;
  std::vector<Constant> constants;
  std::vector<PositionTable> tables;
  std::vector<Attend> attends;
  std::vector<RowOp> ops;         // in an order in which they can be run
  std::vector<RowOp> source_ops;  // the same for the rows of the source, run once a source
  std::vector<Register> registers;

  RowId token = kNoRow;      // i64; kNoRow where the rows come as embeddings
  RowId embedding = kNoRow;  // f32, of a graph that takes embeddings
  std::vector<SourceInput> source_inputs;
  RowId output = kNoRow;  // logits, hidden states, or embeddings

  bool one_token = false;                   // only proved token by token: rows of one sequence run one after another
  std::vector<TokenId> unsupported_tokens;  // for which the program would be wrong (a pad id that changes positions)
  std::optional<int64_t> max_positions;     // from tables and masks
  std::vector<std::string> notes;           // for inspect: what was proved, what was taken for granted
};

}  // namespace kvik::native
