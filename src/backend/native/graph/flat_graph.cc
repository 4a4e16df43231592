#include "backend/native/graph/flat_graph.h"

#include <algorithm>
#include <span>

namespace kvik::native {
namespace {

// A tensor that the compiler computed, as the graph holds constants: its bytes are the stored form.
onnx::TensorData stored(std::string_view name, Tensor tensor) {
  auto kept = std::make_shared<const Tensor>(std::move(tensor));
  const std::span<const std::byte> bytes = kept->bytes();
  return {.name = name,
          .dtype = kept->dtype(),
          .dims = kept->dims(),
          .n_elements = kept->size(),
          .form = onnx::TensorData::Form::kRaw,
          .stored = {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
          .owner = kept,
          .external_file = {}};
}

}  // namespace

onnx::ValueId FlatGraph::add_value(std::string name) {
  names.push_back(std::move(name));
  graph.values.push_back({.name = names.back()});
  return static_cast<onnx::ValueId>(graph.values.size() - 1);
}

onnx::ValueId FlatGraph::add_constant(std::string name, Tensor tensor) {
  const onnx::ValueId id = add_value(std::move(name));
  onnx::Value& value = graph.values[static_cast<size_t>(id)];
  value.initializer = static_cast<int>(graph.initializers.size());
  graph.initializers.push_back(stored(value.name, std::move(tensor)));
  return id;
}

onnx::NodeId FlatGraph::add_node(onnx::Node node) {
  const auto id = static_cast<onnx::NodeId>(graph.nodes.size());
  for (const onnx::ValueId output : node.outputs) {
    if (output != onnx::kNoValue) graph.values[static_cast<size_t>(output)].producer = id;
  }
  graph.nodes.push_back(std::move(node));
  return id;
}

const FlatGraph::Input* FlatGraph::input_of(onnx::ValueId value) const {
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const Input& input) { return input.value == value; });
  return found == inputs.end() ? nullptr : &*found;
}

}  // namespace kvik::native
