#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "backend/native/graph/attention_spec.h"
#include "backend/native/plan/position_recipe.h"
#include "backend/native/plan/weights.h"
#include "base/token.h"
#include "kernels/ops.h"

// The compiled model as data: a program over rows in the few ops that kernels implement. lower/ creates it, fuse/ makes it fast, place/
// assigns memory to its values, execute/ runs it on rows.
//
// What a plan may refer to: its own members, and bytes of the model's files (ModelTensor, constants and lookup tables that are views),
// which it keeps mapped. It holds no closure, no graph of the compiler and no pointer into a device, so that it can be written to a file,
// and so that everything the compiler allocated is freed once the plan is made.
//
// Every value is computed by one op and has the same number of elements for every row. Reshapes and slices of neighboring elements are not
// ops: an Input may refer to a part of a value.
namespace kvik::native {

using ValueIndex = int32_t;  // into Plan::values
using OpIndex = int32_t;     // into Plan::ops
inline constexpr ValueIndex kNoIndex = -1;

struct PlanValue {
  std::string name;  // of the value in the graph, for display
  DType dtype = DType::kF32;
  int64_t size = 0;  // elements of a row (of a row that is selected)
  ValueIndex selection =
      kNoIndex;  // some rows may not have it (an expert's share): the value that selects the rows (itself if its op selects)

  // Kept by Plan::index().
  OpIndex producer = kNoIndex;
  std::vector<OpIndex> consumers;  // in order, each once
};

// What an operation reads: elements [offset, offset + size) of each row of a value, of a constant (the same for all rows), or of the row of
// a position table for the row's position.
struct Input {
  enum class Kind : uint8_t { kNone, kValue, kConstant, kTable };
  Kind kind = Kind::kNone;
  int32_t index = -1;
  int64_t offset = 0, size = 0;

  bool is_value() const { return kind == Kind::kValue; }
  bool is_constant() const { return kind == Kind::kConstant; }
  bool is_table() const { return kind == Kind::kTable; }
  explicit operator bool() const { return kind != Kind::kNone; }
  friend bool operator==(const Input&, const Input&) = default;
};

// How an operand of `groups` times `size / groups` elements is broadcast in an elementwise op.
enum class Spread : uint8_t {
  kAll,       // one element per element
  kEvery,     // one group, the same for all of them: a trailing broadcast
  kPerGroup,  // one element per group
  kOne,       // one element for everything
};

// Numbers of a row whose elements are all f32. Booleans are f32 too in a plan: 1 and 0.
struct Embed {  // row in[0] (i64 or i32) of a table: column in[0] of the matrix
  int weight = -1;
  bool operator==(const Embed&) const = default;
};
struct Matmul {              // in: x, bias or none
  std::vector<int> weights;  // [groups]; each group of x by its own matrix
  bool shared = false;       // one x for all groups
  bool operator==(const Matmul&) const = default;
};
struct UnaryOp {
  Unary op = Unary::kIdentity;
  bool operator==(const UnaryOp&) const = default;
};
struct BinaryOp {
  Binary op = Binary::kAdd;
  Spread a = Spread::kAll, b = Spread::kAll;
  int64_t groups = 1;
  bool operator==(const BinaryOp&) const = default;
};
struct GateOp {  // op(in[0]) * in[1]
  Unary op = Unary::kSilu;
  bool operator==(const GateOp&) const = default;
};
struct ClipOp {
  float low = 0, high = 0;
  bool operator==(const ClipOp&) const = default;
};
struct WhereOp {  // in: condition, yes, no
  Spread condition = Spread::kAll, yes = Spread::kAll, no = Spread::kAll;
  int64_t groups = 1;
  bool operator==(const WhereOp&) const = default;
};
struct NormOp {           // in: x, weight or none, bias or none (both of one group)
  bool centered = false;  // subtracts the mean (layer norm); otherwise by root mean square
  float epsilon = 0;
  int64_t groups = 1;
  bool operator==(const NormOp&) const = default;
};
// in: x, skip, (bias); out: norm, then the sum if needed. Only created by fusions: sum = x + skip (+ bias), then the norm of it. Weight and
// bias of the norm are in[3] and in[4].
struct SkipNormOp {
  NormOp norm;
  bool operator==(const SkipNormOp&) const = default;
};
struct SoftmaxOp {
  int64_t groups = 1;
  bool log = false;
  bool operator==(const SoftmaxOp&) const = default;
};
struct ReduceOp {  // each group to one element
  Reduce op = Reduce::kSum;
  int64_t groups = 1;
  bool operator==(const ReduceOp&) const = default;
};
struct RotaryOp {  // in: x, cos, sin ([pairs])
  int64_t n_heads = 1, head_dim = 0, n_pairs = 0;
  bool interleaved = false;
  bool operator==(const RotaryOp&) const = default;
};
struct Move {  // to[i] = from[i], in runs; repeats, permutations and concatenations
  struct Run {
    int32_t input = 0;  // of the operation
    int64_t from = 0, to = 0, count = 0;
    bool operator==(const Run&) const = default;
  };
  std::vector<Run> runs;
  bool operator==(const Move&) const = default;
};
struct AppendOp {  // in: k, v; into the cache (of the sequence, or of the source in the source's section), as attention `attend` reads them
  int attend = -1;
  bool operator==(const AppendOp&) const = default;
};
struct AttendOp {  // in: q [n_heads][key_dim]; out: [n_heads][value_dim]
  int attend = -1;
  bool operator==(const AttendOp&) const = default;
};
struct ReadRegister {
  int index = -1;
  bool operator==(const ReadRegister&) const = default;
};
struct WriteRegister {
  int index = -1;
  bool operator==(const WriteRegister&) const = default;
};
// Any other node, on its reference kernel, row by row: slow but correct. Values may be of any type. After the node's inputs come the values
// that select the rows that have them.
struct ReferenceOp {
  std::vector<Dims> in_dims;   // of one row, like the node's inputs; -1 if a selection makes it 0 or 1
  std::vector<Dims> out_dims;  // like the node's outputs
  std::vector<bool> in_bool;   // inputs that the node expects as booleans
  bool operator==(const ReferenceOp&) const = default;
};

struct Op {
  using Args = std::variant<Embed, Matmul, UnaryOp, BinaryOp, GateOp, ClipOp, WhereOp, NormOp, SkipNormOp, SoftmaxOp, ReduceOp, RotaryOp,
                            Move, AppendOp, AttendOp, ReadRegister, WriteRegister, ReferenceOp>;
  enum class Section : uint8_t {
    kSource,  // once for every position of the source
    kBody,    // for every row
    kTail,    // only for rows that want logits: feeds no cache and no register (found by place/)
  };

  Args args;
  std::vector<Input> in;
  std::vector<ValueIndex> out;  // kNoIndex if unused
  Section section = Section::kBody;
  onnx::NodeId node = onnx::kNoNode;  // of a ReferenceOp, in Plan::nodes
  ValueIndex selection = kNoIndex;    // rows without this value are left out
  std::string fused_by;               // the pass that created it; empty: from lowering

  template <class T>
  const T* as() const {
    return std::get_if<T>(&args);
  }
  template <class T>
  T* as() {
    return std::get_if<T>(&args);
  }
  std::string_view kind() const;  // "matmul", "norm", …
};

// A value that depends only on the position of the row. tables/ computes its rows when a run needs them.
struct PlanTable {
  std::string name;
  DType dtype = DType::kF32;
  int64_t size = 0;                              // elements of a row
  int64_t limit = 0;                             // positions for which it is defined; 0: no limit was found
  std::shared_ptr<const PositionRecipe> recipe;  // null: `lookup` has a row for each position
  Tensor lookup;                  // [rows][n] f32, in which the recipe selects a row by index; undefined: the recipe computes the elements
  std::vector<int32_t> elements;  // of that row, in the table's order; empty: all of them
  bool negative = false;          // the elements are negated
};

struct Plan {
  std::string file;  // the graph's file
  std::vector<PlanValue> values;
  std::vector<Op> ops;            // in topological order; the source section first
  std::vector<Tensor> constants;  // f32 if an op other than ReferenceOp reads them
  std::vector<PlanTable> tables;
  // For a model with a length switch: the tables for all positions of sequences of more than `switch_after` tokens.
  std::vector<PlanTable> tables_beyond;
  int64_t switch_after = 0;          // 0: no length switch
  std::vector<ModelTensor> tensors;  // sources of the weights
  std::vector<PlanWeight> weights;
  std::shared_ptr<const OwnedGraph> nodes;  // nodes of reference ops; null if there are none
  std::vector<AttentionSpec> attends;
  struct PlanRegister {
    DType dtype = DType::kF32;
    int64_t size = 0;
    bool operator==(const PlanRegister&) const = default;
  };
  std::vector<PlanRegister> registers;

  ValueIndex token = kNoIndex;      // i64
  ValueIndex embedding = kNoIndex;  // f32, if rows are given as embeddings
  struct SourceValue {
    ValueIndex value = kNoIndex;
    int port = -1, position_axis = -1;
    bool operator==(const SourceValue&) const = default;
  };
  std::vector<SourceValue> source_inputs;
  Input output;  // logits, hidden states or embeddings

  bool one_token = false;
  std::vector<TokenId> unsupported_tokens;
  std::optional<int64_t> max_positions;
  std::vector<std::string> notes;
  std::map<std::string, int, std::less<>> fused;  // by name of the pass: number of ops created

  // Sets producers and consumers of all values. Passes call it after changing ops.
  void index();
  // Removes ops whose values are unused (and that write no cache or register), then calls index().
  void drop_unused();

  const PlanValue& value(ValueIndex i) const { return values[static_cast<size_t>(i)]; }
  ValueIndex add_value(std::string name, int64_t size, DType dtype = DType::kF32);
  int add_constant(Tensor tensor);
  int add_tensor(std::string name, Tensor tensor);                                                           // of data in memory
  const onnx::Node& node(const Op& op) const { return nodes->graph().nodes[static_cast<size_t>(op.node)]; }  // of a ReferenceOp
  std::string describe(const Op& op) const;  // "matmul 'name of what it makes'", for messages
  Input whole(ValueIndex i) const { return {Input::Kind::kValue, i, 0, value(i).size}; }
  bool is_whole(const Input& input) const { return input.is_value() && input.offset == 0 && input.size == value(input.index).size; }

  // The op that computes the whole input; null for constants, tables, parts of a value and given values.
  const Op* producer(const Input& input) const;
  Op* producer(const Input& input);
  // The same, if it is of kind T and has a single reader (and is not the output), so that it can be merged into that op.
  template <class T>
  Op* swallow(const Input& input) {
    Op* op = producer(input);
    return op != nullptr && op->as<T>() != nullptr && has_one_consumer(input.index) ? op : nullptr;
  }
  bool has_one_consumer(ValueIndex i) const;
  // The elements of a constant input; empty for other inputs.
  std::span<const float> floats(const Input& input) const;
  // The number, if the input is a constant whose elements are all equal.
  std::optional<float> scalar(const Input& input) const;
  // Makes all readers of `from` read `to`, which has the same number of elements.
  void replace(ValueIndex from, const Input& to);
};

// The initializer behind a tensor of the plan; null if it is computed, or there is none.
const onnx::TensorData* stored_data(const Plan& plan, int tensor);
// The stored type: f32, f16, bf16, or the codes of a quantized matrix.
DType stored_dtype(const Plan& plan, const WeightPart& part);
// Whether two matrices can be packed side by side as one.
bool can_pack_together(const Plan& plan, const PlanWeight& left, const PlanWeight& right);

}  // namespace kvik::native
