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

// A constant of the graph: an initializer, or an expression of them (a transposed, cast or dequantized weight) that is not
// evaluated yet: packing reads what it is made of.
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

// An attention and the rows that it reads and makes.
struct Attend : AttentionSpec {
  // Which element of the row is at [head][dim]; empty: the row is laid out so.
  RowId q = kNoRow, k = kNoRow, v = kNoRow;
  std::vector<int32_t> q_map;  // [n_heads * key_dim]
  std::vector<int32_t> k_map;  // [n_kv_heads * key_dim]
  std::vector<int32_t> v_map;  // [n_kv_heads * value_dim]
  RowId out = kNoRow;
  std::vector<int32_t> out_map;  // for each element of the output's row, which of [n_heads][value_dim]; empty: laid out so

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
  std::shared_ptr<const Labels> labels;  // of its values, to evaluate tables; null if there are none
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
