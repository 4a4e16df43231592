#include "backend/native/probe/evaluation.h"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>
#include <unordered_set>

#include "backend/graph/convert.h"
#include "kvik/error.h"
#include "onnx/eval/ops/common.h"

namespace kvik::native {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::NodeId;
using onnx::ValueId;

double elements(const Dims& dims) {
  double n = 1;
  for (const int64_t dim : dims) n *= static_cast<double>(std::max<int64_t>(0, dim));
  return n;
}

// The shape after broadcasting; nullopt if the shapes do not fit each other.
std::optional<Dims> broadcast(const Dims& a, const Dims& b) {
  Dims result(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return {};
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

double product_elements(const Tensor& a, const Tensor& b) {
  if (a.rank() == 0 || b.rank() == 0) return static_cast<double>(a.size() + b.size());
  const double rows = static_cast<double>(a.size()) / static_cast<double>(std::max<int64_t>(1, a.dim(-1)));
  const double inner = static_cast<double>(std::max<int64_t>(1, b.rank() > 1 ? b.dim(-2) : b.dim(-1)));
  return std::max(rows, 1.0) * static_cast<double>(b.size()) / inner;
}

// The output size of operators whose output can be much larger than their inputs; for others a rough upper bound.
double expected_elements(const Node& node, std::span<const Tensor> in) {
  const auto has = [&](size_t i) { return i < in.size() && in[i].defined(); };
  if (node.op == "ConstantOfShape" && has(0)) return elements(onnx::as_ints(in[0]));
  if (node.op == "Expand" && has(1)) {
    const auto dims = broadcast(in[0].dims(), onnx::as_ints(in[1]));
    return dims ? elements(*dims) : 0;
  }
  if (node.op == "Tile" && has(1)) return static_cast<double>(in[0].size()) * elements(onnx::as_ints(in[1]));
  if (node.op == "Range" && has(2)) {
    const double delta = onnx::as_double(in[2]);
    return delta == 0 ? 0 : std::max(0.0, (onnx::as_double(in[1]) - onnx::as_double(in[0])) / delta + 1);
  }
  if (node.op == "OneHot" && has(1)) return static_cast<double>(in[0].size()) * onnx::as_double(in[1]);
  if ((node.op == "Gather" || node.op == "GatherBlockQuantized") && has(1) && in[0].rank() > 0) {
    const int axis = onnx::normal_axis(node.int_or("axis", 0), in[0].rank());
    return static_cast<double>(in[1].size()) * static_cast<double>(in[0].size()) /
           static_cast<double>(std::max<int64_t>(1, in[0].dim(axis)));
  }
  if (node.op == "Pad" && has(1)) {
    double n = static_cast<double>(in[0].size());
    for (const int64_t pad : onnx::as_ints(in[1])) n += n * static_cast<double>(std::max<int64_t>(0, pad));
    return n;
  }
  if ((node.op == "MatMul" || node.op == "FusedMatMul" || node.op == "Gemm") && has(1)) return product_elements(in[0], in[1]);
  double sum = 0;
  std::optional<Dims> dims = Dims{};
  for (const Tensor& tensor : in) {
    if (!tensor.defined()) continue;
    sum += static_cast<double>(tensor.size());
    if (dims) dims = broadcast(*dims, tensor.dims());
  }
  return std::max(sum, dims ? elements(*dims) : 0);
}

void spend(const Node& node, std::span<const Tensor> inputs, WorkBudget& budget) {
  constexpr double kBytesEach = 4;
  const double bytes = expected_elements(node, inputs) * kBytesEach;
  // The small constant counts nodes, so that a loop over empty tensors ends too.
  const double work = bytes + 64;
  if (bytes > static_cast<double>(budget.largest_bytes) || work > static_cast<double>(budget.bytes_left)) {
    throw Error(Code::kTooLarge, fmt::format("{}: its result exceeds the compiler's evaluation budget", node.describe()));
  }
  budget.bytes_left -= static_cast<int64_t>(work);
}

// A cast to a type that is computed in f32 is a cast to f32.
std::optional<Node> cast_to_f32(const Node& node) {
  if (node.op != "Cast" || !node.domain.empty()) return {};
  const auto to = static_cast<DType>(node.int_or("to", 0));
  if (to == DType::kF32 || !is_computed_as_f32(to)) return {};
  Node changed = node;
  for (onnx::Attribute& attribute : changed.attributes) {
    if (attribute.name == "to") attribute.data = static_cast<int64_t>(DType::kF32);
  }
  return changed;
}

}  // namespace

bool is_computed_as_f32(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF64;
}

Tensor as_f32(Tensor tensor) { return is_computed_as_f32(tensor.dtype()) ? backend::cast_float(tensor, DType::kF32) : tensor; }

namespace {

std::vector<Tensor> inputs_of(const Node& node, const ValueOf& value_of) {
  std::vector<Tensor> inputs(node.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] != onnx::kNoValue) inputs[i] = value_of(node.inputs[i]);
  }
  return inputs;
}

std::vector<Tensor> run_on(const Node& node, std::span<const Tensor> inputs, const ValueOf& value_of, WorkBudget& budget) {
  spend(node, inputs, budget);
  const onnx::RunSubgraph inner = [&](const Graph& graph, std::span<const Tensor> given) {
    return run_graph(graph, given, value_of, budget);
  };
  const std::optional<Node> changed = cast_to_f32(node);
  std::vector<Tensor> outputs = onnx::run_kernel(changed ? *changed : node, inputs, inner, onnx::Work(budget.steps_left));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == onnx::kNoValue) continue;
    if (i >= outputs.size() || !outputs[i].defined())
      throw Error(Code::kUnsupported, fmt::format("{}: output {} is not computed by the reference evaluator", node.describe(), i));
  }
  for (Tensor& output : outputs) output = as_f32(std::move(output));
  return outputs;
}

}  // namespace

std::vector<Tensor> run_node(const Node& node, const ValueOf& value_of, WorkBudget& budget) {
  return run_on(node, inputs_of(node, value_of), value_of, budget);
}

Expected<Evaluated<std::vector<Tensor>>> try_run_node(const Node& node, const ExpectedValueOf& value_of, WorkBudget& budget) {
  std::vector<Tensor> inputs(node.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] == onnx::kNoValue) continue;
    KVIK_TRY(inputs[i], value_of(node.inputs[i]));
  }
  std::unordered_map<ValueId, Tensor> captured;  // by subgraphs
  for (const ValueId id : node.captures) { KVIK_TRY(captured[id], value_of(id)); }
  const ValueOf captured_of = [&](ValueId id) { return captured.at(id); };
  return evaluate([&] { return run_on(node, inputs, captured_of, budget); });
}

std::vector<Tensor> run_graph(const Graph& graph, std::span<const Tensor> given, const ValueOf& outside, WorkBudget& budget) {
  if (given.size() != graph.inputs.size())
    throw Error(Code::kBadModel, fmt::format("a graph takes {} inputs, {} were given", graph.inputs.size(), given.size()));
  std::vector<Tensor> values(graph.values.size());
  for (size_t i = 0; i < given.size(); ++i) values[static_cast<size_t>(graph.inputs[i])] = given[i];
  const ValueOf inside = [&](ValueId id) {
    if (graph.value(id).outer != onnx::kNoValue) return outside(graph.value(id).outer);
    Tensor& value = values[static_cast<size_t>(id)];
    const onnx::TensorData* weight = graph.initializer_of(id);
    if (!value.defined() && weight != nullptr) value = as_f32(onnx::load(*weight));
    return value;
  };
  for (const Node& node : graph.nodes) {
    std::vector<Tensor> outputs = run_node(node, inside, budget);
    for (size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i) {
      if (node.outputs[i] != onnx::kNoValue) values[static_cast<size_t>(node.outputs[i])] = std::move(outputs[i]);
    }
  }
  std::vector<Tensor> results;
  for (const ValueId id : graph.outputs) results.push_back(inside(id));
  return results;
}

std::vector<NodeId> nodes_needed(const Graph& graph, ValueId target, const std::function<bool(ValueId)>& known,
                                 std::vector<ValueId>* missing) {
  struct Visit {
    NodeId node;
    size_t next = 0;  // which of its inputs, then captures
  };
  std::vector<NodeId> order;
  std::vector<Visit> stack;
  std::unordered_set<NodeId> seen;
  const auto enter = [&](ValueId id) {
    if (id == onnx::kNoValue || known(id)) return;
    const NodeId producer = graph.value(id).producer;
    if (producer == onnx::kNoNode) {
      if (missing != nullptr) missing->push_back(id);
      return;
    }
    if (seen.insert(producer).second) stack.push_back({producer});
  };
  enter(target);
  while (!stack.empty()) {
    Visit& visit = stack.back();
    const Node& node = graph.nodes[static_cast<size_t>(visit.node)];
    const size_t n_inputs = node.inputs.size();
    if (visit.next == n_inputs + node.captures.size()) {
      order.push_back(visit.node);
      stack.pop_back();
      continue;
    }
    const size_t i = visit.next++;
    enter(i < n_inputs ? node.inputs[i] : node.captures[i - n_inputs]);
  }
  return order;
}

}  // namespace kvik::native
