#include "analysis/graph_facts.h"

#include "analysis/port_names.h"

namespace kvik::analysis {
namespace {

constexpr size_t kMostTraced = 4096;  // inputs; limits the time spent on a hostile file

bool is_small_number(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

// Floating-point tensors of rank 3 or more, and quantized caches.
bool could_be_state(const onnx::Value& value) {
  if (!value.type || value.type->kind != onnx::ValueType::Kind::kTensor) return false;
  const onnx::ValueType& type = *value.type;
  if (!is_float(type.dtype) && !is_small_number(type.dtype)) return false;
  if (!type.dims || type.dims->size() >= 3) return true;
  return type.dims->size() == 2 && state_name(value.name).looks_like_state;
}

std::vector<Port> ports_of(const onnx::Graph& graph, const std::vector<onnx::ValueId>& values) {
  std::vector<Port> ports;
  ports.reserve(values.size());
  for (const onnx::ValueId id : values) {
    const onnx::Value& value = graph.value(id);
    Port port;
    port.name = std::string(value.name);
    if (value.type) {
      port.dtype = value.type->dtype;
      port.has_shape = value.type->dims.has_value();
      if (value.type->dims) port.dims = *value.type->dims;
    }
    ports.push_back(std::move(port));
  }
  return ports;
}

}  // namespace

GraphFacts::GraphFacts(const onnx::Graph& g) : graph(g), flow(g), attention(flow), traces(g.inputs.size()), uses(g.inputs.size()) {
  size_t n_left = kMostTraced;
  for (size_t i = 0; i < g.inputs.size() && n_left > 0; ++i, --n_left) {
    const onnx::Value& value = g.value(g.inputs[i]);
    const FlowValue at = flow.inputs()[i];
    if (could_be_state(value)) {
      const int rank = value.type->dims ? static_cast<int>(value.type->dims->size()) : 0;
      traces[i] = trace_state(flow, attention, at, rank);
    } else {
      uses[i] = control_uses(flow, at);
    }
  }
}

std::optional<ControlUses> GraphFacts::data_uses(size_t input) const {
  if (uses[input]) return uses[input];
  return control_uses(flow, flow.inputs()[input]);
}

void GraphFacts::find_dependencies() {
  dependencies_.assign(flow.n_values(), 0);
  if (token_input >= 0) dependencies_[static_cast<size_t>(flow.inputs()[static_cast<size_t>(token_input)])] |= 1;
  if (source_input >= 0) dependencies_[static_cast<size_t>(flow.inputs()[static_cast<size_t>(source_input)])] |= 2;
  for (const FlowNode& node : flow.nodes()) {
    if (node.is("Shape") || node.is("Size")) continue;
    uint8_t bits = 0;
    for (const FlowValue value : node.inputs)
      bits = static_cast<uint8_t>(bits | (value == kNone ? 0 : dependencies_[static_cast<size_t>(value)]));
    for (const FlowValue value : node.outputs) {
      if (value != kNone) dependencies_[static_cast<size_t>(value)] = bits;
    }
  }
}

bool GraphFacts::depends_on(FlowValue value, int input) const {
  if (dependencies_.empty() || value == kNone || input < 0) return false;
  const uint8_t bits = dependencies_[static_cast<size_t>(value)];
  return (input == token_input && (bits & 1) != 0) || (input == source_input && (bits & 2) != 0);
}

std::vector<Port> input_ports(const onnx::Graph& graph) { return ports_of(graph, graph.inputs); }
std::vector<Port> output_ports(const onnx::Graph& graph) { return ports_of(graph, graph.outputs); }

std::string_view symbol_at(const Port& port, int axis) {
  if (axis < 0 || axis >= static_cast<int>(port.dims.size())) return {};
  const onnx::Dim& dim = port.dims[static_cast<size_t>(axis)];
  return dim.value >= 0 ? std::string_view() : dim.symbol;
}

int64_t size_at(const Port& port, int axis) {
  return axis < 0 || axis >= static_cast<int>(port.dims.size()) ? -1 : port.dims[static_cast<size_t>(axis)].value;
}

}  // namespace kvik::analysis
