#include <algorithm>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {
namespace {

constexpr int64_t kMostIterations = 1'000'000;  // an endless loop is an error, not a hang

Tensors run(const KernelCall& call, const Graph& graph, std::span<const Tensor> inputs) {
  require(static_cast<bool>(call.run_subgraph), "subgraphs cannot be run here");
  require(graph.inputs.size() == inputs.size(), "the subgraph has {} inputs; {} are given", graph.inputs.size(), inputs.size());
  return call.run_subgraph(graph, inputs);
}

Tensors if_kernel(const KernelCall& call) { return run(call, call.node.graph(as_bool(call.input(0)) ? "then_branch" : "else_branch"), {}); }

// Stacks the values of a scan output along a new axis.
class Stack {
 public:
  void push(Tensor part) {
    require(parts_.empty() || (parts_[0].dtype() == part.dtype() && parts_[0].dims() == part.dims()),
            "an output of the body changes from {} to {} between iterations", to_string(parts_.empty() ? Dims() : parts_[0].dims()),
            to_string(part.dims()));
    bytes_ += static_cast<int64_t>(part.size_bytes());
    if (bytes_ > kMostResultBytes) throw Error(Code::kTooLarge, "the stacked outputs exceed the limit");
    parts_.push_back(std::move(part));
  }

  // `declared` is the type of the body's output, for a loop without iterations.
  Tensor joined(int64_t axis, bool reversed, const std::optional<ValueType>& declared) {
    if (parts_.empty()) return none(axis, declared);
    if (reversed) std::reverse(parts_.begin(), parts_.end());
    Dims dims = parts_[0].dims();
    const int at = normal_axis(axis, parts_[0].rank() + 1);
    dims.insert(dims.begin() + at, static_cast<int64_t>(parts_.size()));
    Tensor result = new_tensor(parts_[0].dtype(), dims);
    if (result.size() == 0) return result;
    ElementWriter writer(result);
    const auto [outer, n, inner] = split_at(dims, at);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t o = 0; o < outer; ++o) writer.copy(parts_[static_cast<size_t>(i)], o * inner, (o * n + i) * inner, inner);
    }
    return result;
  }

 private:
  static Tensor none(int64_t axis, const std::optional<ValueType>& declared) {
    require(declared && declared->dtype != DType::kUndefined, "no iteration was run and an output has no declared type");
    Dims dims;
    if (declared->dims) {
      for (const Dim& dim : *declared->dims) dims.push_back(std::max<int64_t>(0, dim.value));
    }
    dims.insert(dims.begin() + normal_axis(axis, static_cast<int>(dims.size()) + 1), 0);
    return {declared->dtype, dims};
  }

  std::vector<Tensor> parts_;
  int64_t bytes_ = 0;
};

std::optional<ValueType> declared_type(const Graph& body, size_t output) { return body.value(body.outputs[output]).type; }

Tensors loop(const KernelCall& call) {
  const Graph& body = call.node.graph("body");
  const int64_t most = call.has(0) ? as_int(call.input(0)) : INT64_MAX;
  bool go_on = !call.has(1) || as_bool(call.input(1));
  Tensors carried(call.inputs.begin() + static_cast<int64_t>(std::min<size_t>(2, call.inputs.size())), call.inputs.end());
  require(body.outputs.size() >= carried.size() + 1, "the body has {} outputs for {} carried values", body.outputs.size(), carried.size());
  std::vector<Stack> stacks(body.outputs.size() - carried.size() - 1);
  for (int64_t i = 0; i < most && go_on; ++i) {
    require(i < kMostIterations, "it does not end within {} iterations", kMostIterations);
    Tensors inputs = {Tensor::scalar(i), Tensor::scalar(go_on)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    Tensors outputs = run(call, body, inputs);
    go_on = as_bool(outputs[0]);
    for (size_t k = 0; k < carried.size(); ++k) carried[k] = std::move(outputs[1 + k]);
    for (size_t k = 0; k < stacks.size(); ++k) stacks[k].push(std::move(outputs[1 + carried.size() + k]));
  }
  Tensors results = carried;
  for (size_t k = 0; k < stacks.size(); ++k) results.push_back(stacks[k].joined(0, false, declared_type(body, 1 + carried.size() + k)));
  return results;
}

// Row i of an axis, without that axis.
Tensor row_of(const Tensor& x, int axis, int64_t i) {
  Dims dims = x.dims();
  Dims strides = strides_of(dims);
  const int64_t start = i * strides[static_cast<size_t>(axis)];
  dims.erase(dims.begin() + axis);
  strides.erase(strides.begin() + axis);
  return strided_copy(x, start, dims, strides);
}

int64_t at_or_zero(const std::vector<int64_t>& values, size_t i) { return i < values.size() ? values[i] : 0; }

struct ScanParts {
  Tensors states;
  Tensors sequences;
  int64_t length = 0;
};

ScanParts parts_of(const Node& node, std::span<const Tensor> inputs) {
  const int64_t n = node.int_or("num_scan_inputs", 0);
  require(n >= 0 && n <= static_cast<int64_t>(inputs.size()), "num_scan_inputs is {}; the node has {} inputs", n, inputs.size());
  const auto cut = inputs.end() - n;
  return {{inputs.begin(), cut}, {cut, inputs.end()}, 0};
}

// Scan since opset 9: no batch axis.
Tensors scan_once(const KernelCall& call, std::span<const Tensor> given, int64_t most) {
  const Graph& body = call.node.graph("body");
  ScanParts parts = parts_of(call.node, given);
  const std::vector<int64_t> axes = call.node.ints_or("scan_input_axes", {});
  const std::vector<int64_t> in_directions = call.node.ints_or(call.node.opset < 9 ? "directions" : "scan_input_directions", {});
  std::vector<int> at;
  for (size_t k = 0; k < parts.sequences.size(); ++k) {
    at.push_back(normal_axis(at_or_zero(axes, k), parts.sequences[k].rank()));
    const int64_t length = parts.sequences[k].dim(at[k]);
    require(k == 0 || length == parts.length, "its sequences have {} and {} elements", parts.length, length);
    parts.length = length;
  }
  parts.length = std::min(parts.length, most);
  const size_t n_states = parts.states.size();
  require(body.outputs.size() >= n_states, "the body has {} outputs for {} states", body.outputs.size(), n_states);
  std::vector<Stack> stacks(body.outputs.size() - n_states);
  for (int64_t i = 0; i < parts.length; ++i) {
    Tensors inputs = parts.states;
    for (size_t k = 0; k < parts.sequences.size(); ++k) {
      inputs.push_back(row_of(parts.sequences[k], at[k], at_or_zero(in_directions, k) != 0 ? parts.length - 1 - i : i));
    }
    Tensors outputs = run(call, body, inputs);
    for (size_t k = 0; k < n_states; ++k) parts.states[k] = std::move(outputs[k]);
    for (size_t k = 0; k < stacks.size(); ++k) stacks[k].push(std::move(outputs[n_states + k]));
  }
  Tensors results = parts.states;
  const std::vector<int64_t> out_axes = call.node.ints_or("scan_output_axes", {});
  const std::vector<int64_t> out_directions = call.node.ints_or("scan_output_directions", {});
  for (size_t k = 0; k < stacks.size(); ++k) {
    results.push_back(stacks[k].joined(at_or_zero(out_axes, k), at_or_zero(out_directions, k) != 0, declared_type(body, n_states + k)));
  }
  return results;
}

// Scan in opset 8: the first axis is the batch, and input 0 may have the length of each sequence.
Tensors scan_batches(const KernelCall& call) {
  require(call.inputs.size() > 1 && call.input(1).rank() > 0, "it has no input with a batch axis");
  const int64_t batch = call.input(1).dim(0);
  std::vector<Stack> stacks;
  for (int64_t b = 0; b < batch; ++b) {
    Tensors inputs;
    for (size_t k = 1; k < call.inputs.size(); ++k) {
      require(call.input(k).rank() > 0 && call.input(k).dim(0) == batch, "its inputs have batches of different size");
      inputs.push_back(row_of(call.input(k), 0, b));
    }
    const std::vector<int64_t> lengths = call.has(0) ? as_ints(call.input(0)) : std::vector<int64_t>(static_cast<size_t>(batch), INT64_MAX);
    require(static_cast<int64_t>(lengths.size()) == batch, "{} lengths were given for a batch of {}", lengths.size(), batch);
    Tensors outputs = scan_once(call, inputs, lengths[static_cast<size_t>(b)]);
    stacks.resize(outputs.size());
    for (size_t k = 0; k < outputs.size(); ++k) stacks[k].push(std::move(outputs[k]));
  }
  Tensors results;
  for (Stack& stack : stacks) results.push_back(stack.joined(0, false, std::nullopt));
  return results;
}

Tensors scan(const KernelCall& call) { return call.node.opset < 9 ? scan_batches(call) : scan_once(call, call.inputs, INT64_MAX); }

// An optional that holds a tensor is that tensor here; an empty one is an omitted input.
Tensors optional_has_element(const KernelCall& call) { return {Tensor::scalar(call.has(0))}; }
Tensors optional_get_element(const KernelCall& call) { return {call.input(0)}; }

}  // namespace

void add_control_flow(KernelTable& table) {
  table.add("If", if_kernel);
  table.add("OptionalGetElement", optional_get_element);
  table.add("OptionalHasElement", optional_has_element);
  table.add("Loop", loop);
  table.add("Scan", scan);
}

}  // namespace kvik::onnx
