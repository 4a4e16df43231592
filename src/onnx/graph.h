#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "onnx/tensor_data.h"
#include "tensor/dtype.h"

// A model after reading: names are resolved to ids, model-local functions are inlined, nodes are in topological order. Everything is
// immutable after reading and may be shared by threads. String views point into the mapped file or into Model::generated_names and
// live as long as the Model.
namespace kvik::onnx {

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr ValueId kNoValue = -1;  // an omitted optional input or output
inline constexpr NodeId kNoNode = -1;

struct Dim {
  int64_t value = -1;       // known if >= 0
  std::string_view symbol;  // "batch_size", "past_sequence_length + sequence_length"; may be empty if the value is unknown too
};

struct ValueType {
  enum class Kind { kTensor, kSequence, kOptional, kMap, kSparseTensor };
  Kind kind = Kind::kTensor;
  DType dtype = DType::kUndefined;       // of a tensor's elements
  std::optional<std::vector<Dim>> dims;  // nothing if the rank is not declared
};

struct Value {
  std::string_view name;
  NodeId producer = kNoNode;      // the node of this graph that computes it
  int initializer = -1;           // index into Graph::initializers
  ValueId outer = kNoValue;       // captured: this value of the enclosing graph
  std::optional<ValueType> type;  // as declared, which may differ from what the graph computes
};

struct Graph;

struct Attribute {
  using Data =
      std::variant<std::monostate, float, int64_t, std::string_view, TensorData, std::shared_ptr<const Graph>, std::vector<float>,
                   std::vector<int64_t>, std::vector<std::string_view>, std::vector<TensorData>, std::vector<std::shared_ptr<const Graph>>>;
  std::string_view name;
  Data data;
};

struct Node {
  std::string_view op;
  std::string_view domain;        // "" for the standard operators, never "ai.onnx"
  std::string_view name;          // may be empty
  int opset = 1;                  // version of the node's domain, as imported by the model or by the function it came from
  std::vector<ValueId> inputs;    // kNoValue if omitted
  std::vector<ValueId> outputs;   // kNoValue if unused
  std::vector<ValueId> captures;  // values of this graph that the subgraphs among the attributes read
  std::vector<Attribute> attributes;

  const Attribute* find(std::string_view attribute) const;  // null if absent
  bool has(std::string_view attribute) const { return find(attribute) != nullptr; }

  // The attribute, or `absent` if the node does not have it. Throw Error(kBadModel) if it has another type.
  int64_t int_or(std::string_view attribute, int64_t absent) const;
  float float_or(std::string_view attribute, float absent) const;
  std::string_view string_or(std::string_view attribute, std::string_view absent) const;
  std::vector<int64_t> ints_or(std::string_view attribute, std::vector<int64_t> absent) const;
  std::vector<float> floats_or(std::string_view attribute, std::vector<float> absent) const;
  // The same for required attributes.
  const TensorData& tensor(std::string_view attribute) const;
  const Graph& graph(std::string_view attribute) const;

  // "node 'name' (Op)", for messages.
  std::string describe() const;
};

struct Graph {
  std::string_view name;
  std::vector<Value> values;
  std::vector<Node> nodes;  // in topological order
  std::vector<TensorData> initializers;
  std::vector<ValueId> inputs;            // in declared order; required
  std::vector<ValueId> defaulted_inputs;  // declared as inputs with an initializer as their default
  std::vector<ValueId> outputs;

  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  std::string_view name_of(ValueId id) const { return id == kNoValue ? std::string_view() : value(id).name; }
  const TensorData* initializer_of(ValueId id) const {
    return value(id).initializer < 0 ? nullptr : &initializers[static_cast<size_t>(value(id).initializer)];
  }
};

struct Model {
  std::string path;  // for messages; empty for a model read from memory
  int64_t ir_version = 0;
  std::string_view producer_name;
  std::string_view producer_version;
  std::map<std::string_view, int64_t> opsets;  // by domain
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  std::shared_ptr<const Graph> graph;
  size_t n_functions = 0;  // model-local functions, all inlined

  // Throws Error(kIo) if a file was truncated or overwritten since it was read; see MappedFile.
  void check_files_unchanged() const;

  std::vector<std::shared_ptr<const MappedFile>> files;  // the model's own file, which the string views point into, then external data
  std::deque<std::string> generated_names;               // of values inside inlined functions
};

}  // namespace kvik::onnx
