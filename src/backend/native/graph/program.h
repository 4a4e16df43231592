#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/native/graph/attention_spec.h"
#include "backend/native/graph/flat_graph.h"
#include "backend/native/graph/labels.h"
#include "base/token.h"
#include "tensor/tensor.h"

// The output of the compiler's front end, which the back end turns into a plan: a program over one row. It is the graph for one token at
// batch 1: the exporter's nodes, on values whose batch and sequence axes have size 1. Correct without any fusion.
namespace kvik::native {

using RowId = int32_t;  // index into Program::values
inline constexpr RowId kNoRow = -1;

struct RowValue {
  std::string_view name;            // of the value in the graph
  DType dtype = DType::kUndefined;  // never f16, bf16 or f64: those are computed in f32
  Dims dims;                        // of one row; -1 if a selection makes it 0 or 1
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
  onnx::NodeId node = onnx::kNoNode;  // in FlatGraph::graph; for kinds other than kNode only for its name
  std::vector<Operand> inputs;        // as the node's; kNone if omitted
  std::vector<RowId> outputs;         // as the node's; kNoRow if unused
  int attend = -1;
};

// A constant of the graph: an initializer, or an expression of initializers (a transposed, cast or dequantized weight) that is not
// evaluated yet, because packing reads the initializers directly.
struct Constant {
  onnx::ValueId value = onnx::kNoValue;
  DType dtype = DType::kUndefined;
  Dims dims;
};

// A value that, according to probing, depends only on the position of the row. tables/ turns it into data.
struct PositionTable {
  std::string_view name;
  DType dtype = DType::kUndefined;
  Dims dims;  // of one row
  onnx::ValueId value = onnx::kNoValue;
  Axes axes;          // of the value
  int64_t limit = 0;  // positions for which it is defined; 0: no limit was found
};

// An attention and the rows that it reads and writes.
struct Attend : AttentionSpec {
  // The element of the row at [head][dim]; empty: the row has this layout.
  RowId q = kNoRow, k = kNoRow, v = kNoRow;
  std::vector<int32_t> q_map;  // [n_heads * key_dim]
  std::vector<int32_t> k_map;  // [n_kv_heads * key_dim]
  std::vector<int32_t> v_map;  // [n_kv_heads * value_dim]
  RowId out = kNoRow;
  std::vector<int32_t> out_map;  // for each element of the output row, its index in [n_heads][value_dim]; empty: it has this layout

  bool operator==(const Attend&) const = default;
};

// A register of a sequence (recurrent or convolution state): read before and written after each row. Initially zero.
struct Register {
  RowId in = kNoRow, out = kNoRow;
};

// A value that is given for every position of the source: an output of the encoder.
struct SourceInput {
  RowId row = kNoRow;
  int port = -1;           // index into analysis::File::inputs
  int position_axis = -1;  // of the given tensor
};

struct Program {
  std::shared_ptr<FlatGraph> flat;       // nodes and constants
  std::shared_ptr<const Labels> labels;  // of its values, to evaluate tables; null if there are none
  std::vector<RowValue> values;
  std::vector<Constant> constants;
  std::vector<PositionTable> tables;
  std::vector<Attend> attends;
  std::vector<RowOp> ops;         // in topological order
  std::vector<RowOp> source_ops;  // the same for the rows of the source, run once per source
  std::vector<Register> registers;

  RowId token = kNoRow;      // i64; kNoRow if rows are given as embeddings
  RowId embedding = kNoRow;  // f32, for a graph that takes embeddings
  std::vector<SourceInput> source_inputs;
  RowId output = kNoRow;  // logits, hidden states, or embeddings

  bool one_token = false;                   // proved only for one token at a time: rows of one sequence run one after another
  std::vector<TokenId> unsupported_tokens;  // tokens for which the program would be wrong (a pad id that changes positions)
  std::optional<int64_t> max_positions;     // from tables and masks
  std::vector<std::string> notes;           // for inspect: what was proved and what was assumed
};

}  // namespace kvik::native
