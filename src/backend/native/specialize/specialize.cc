#include "backend/native/specialize/specialize.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvik::native {
namespace {

using onnx::kNoValue;
using onnx::ValueId;

bool is_narrow_or_wide(int64_t dtype) {
  return dtype == static_cast<int64_t>(DType::kF16) || dtype == static_cast<int64_t>(DType::kBF16) ||
         dtype == static_cast<int64_t>(DType::kF64);
}

// All floats are computed in f32, so a cast to another one is a cast to that.
onnx::Node widened(onnx::Node node) {
  if (node.op != "Cast" || !node.domain.empty()) return node;
  for (onnx::Attribute& attribute : node.attributes) {
    const auto* to = std::get_if<int64_t>(&attribute.data);
    if (attribute.name == "to" && to != nullptr && is_narrow_or_wide(*to)) attribute.data = static_cast<int64_t>(DType::kF32);
  }
  return node;
}

Expected<> bind_inputs(FlatGraph& flat) {
  const analysis::File& file = *flat.file;
  if (file.inputs.size() != flat.graph.inputs.size()) {
    return refuse(
        fmt::format("{}: the graph has {} inputs, its analysis {}", file.path.string(), flat.graph.inputs.size(), file.inputs.size()));
  }
  for (size_t i = 0; i < file.inputs.size(); ++i) {
    const auto state =
        std::find_if(file.states.begin(), file.states.end(), [&](const analysis::State& one) { return one.input == static_cast<int>(i); });
    flat.inputs.push_back({flat.graph.inputs[i], &file.inputs[i], state == file.states.end() ? nullptr : &*state});
  }
  return {};
}

Expected<Tensor> flag_tensor(const analysis::Port& port, bool value) {
  Dims dims(port.has_shape ? port.dims.size() : 1, 1);
  if (port.dtype == DType::kBool) return Tensor::of<bool>(dims, {value});
  if (port.dtype == DType::kI64) return Tensor::of<int64_t>(dims, {value ? 1 : 0});
  if (port.dtype == DType::kI32) return Tensor::of<int32_t>(dims, {value ? 1 : 0});
  return refuse(fmt::format("input '{}' chooses a branch but has the type {}", port.name, dtype_name(port.dtype)));
}

// The flag is not an input any more: every If that reads it has a constant condition.
Expected<> fix_flags(FlatGraph& flat, bool cached_branch) {
  for (const FlatGraph::Input& input : flat.inputs) {
    if (input.port->role != analysis::Role::kUseCacheBranch) continue;
    KVIK_TRY(Tensor flag, flag_tensor(*input.port, cached_branch));
    const ValueId constant = flat.add_constant(input.port->name, std::move(flag));
    flat.graph.values[static_cast<size_t>(input.value)].initializer = flat.graph.value(constant).initializer;
  }
  std::erase_if(flat.inputs, [](const FlatGraph::Input& input) { return input.port->role == analysis::Role::kUseCacheBranch; });
  return {};
}

// TensorScatter itself defines what it writes, so the capacity of the buffer does not matter.
int64_t buffer_of(const FlatGraph& flat) {
  int64_t buffer = 0;
  for (const analysis::State& state : flat.file->states) {
    if (state.input < 0 || state.cross || state.growth != analysis::Growth::kFixed) continue;
    if (state.capacity < 8 || (buffer != 0 && state.capacity != buffer)) return 0;
    buffer = state.capacity;
  }
  const auto scatters = [](const onnx::Node& node) { return node.op == "TensorScatter" || node.op == "GroupQueryAttention"; };
  return std::any_of(flat.graph.nodes.begin(), flat.graph.nodes.end(), scatters) ? 0 : buffer;
}

bool reads_past(const analysis::File& file) {
  return std::any_of(file.states.begin(), file.states.end(), [](const analysis::State& state) { return state.input >= 0 && !state.cross; });
}

// A graph inside a branch refers to values of the branch by number; those get other numbers in the flat graph.
std::shared_ptr<const onnx::Graph> recaptured(const onnx::Graph& inner, const std::vector<ValueId>& numbers) {
  auto copy = std::make_shared<onnx::Graph>(inner);
  for (onnx::Value& value : copy->values) {
    if (value.outer != kNoValue) value.outer = numbers[static_cast<size_t>(value.outer)];
  }
  return copy;
}

void renumber(onnx::Node& node, const std::vector<ValueId>& numbers) {
  const auto map_all = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) {
      if (id != kNoValue) id = numbers[static_cast<size_t>(id)];
    }
  };
  map_all(node.inputs);
  map_all(node.outputs);
  map_all(node.captures);
  for (onnx::Attribute& attribute : node.attributes) {
    if (auto* one = std::get_if<std::shared_ptr<const onnx::Graph>>(&attribute.data)) *one = recaptured(**one, numbers);
    if (auto* several = std::get_if<std::vector<std::shared_ptr<const onnx::Graph>>>(&attribute.data)) {
      for (auto& one : *several) one = recaptured(*one, numbers);
    }
  }
}

// For each value of the branch, its number in the flat graph.
std::vector<ValueId> adopt_values(FlatGraph& flat, const onnx::Graph& branch) {
  std::vector<ValueId> numbers;
  numbers.reserve(branch.values.size());
  for (const onnx::Value& value : branch.values) {
    if (value.outer != kNoValue) {
      numbers.push_back(value.outer);
      continue;
    }
    numbers.push_back(static_cast<ValueId>(flat.graph.values.size()));
    flat.graph.values.push_back(value);
    if (value.initializer < 0) continue;
    flat.graph.values.back().initializer = static_cast<int>(flat.graph.initializers.size());
    flat.graph.initializers.push_back(branch.initializers[static_cast<size_t>(value.initializer)]);
  }
  return numbers;
}

}  // namespace

Outcome<std::shared_ptr<FlatGraph>> specialize(const analysis::File& file, bool cached_branch) {
  auto flat = std::make_shared<FlatGraph>();
  flat->file = &file;
  flat->model = file.model;
  flat->graph = *file.model->graph;
  for (onnx::Node& node : flat->graph.nodes) node = widened(std::move(node));
  KVIK_CHECK(bind_inputs(*flat));
  KVIK_CHECK(fix_flags(*flat, cached_branch));
  flat->buffer = buffer_of(*flat);
  flat->has_past = reads_past(file) && (file.stage != analysis::Stage::kDecoderMerged || cached_branch);
  return flat;
}

Expected<> inline_branch(FlatGraph& flat, onnx::NodeId id, bool condition) {
  const onnx::Node node = flat.graph.nodes[static_cast<size_t>(id)];
  const onnx::Graph& branch = node.graph(condition ? "then_branch" : "else_branch");
  if (branch.outputs.size() < node.outputs.size())
    return refuse(node, fmt::format("a branch has {} outputs; {} are needed", branch.outputs.size(), node.outputs.size()));
  const std::vector<ValueId> numbers = adopt_values(flat, branch);
  for (const onnx::Node& inner : branch.nodes) {
    onnx::Node copy = widened(inner);
    renumber(copy, numbers);
    flat.add_node(std::move(copy));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    const ValueId from = numbers[static_cast<size_t>(branch.outputs[i])];
    flat.add_node({.op = "Identity", .name = node.name, .opset = node.opset, .inputs = {from}, .outputs = {node.outputs[i]}});
  }
  return {};
}

}  // namespace kvik::native
