#pragma once

#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/graph.h"
#include "tensor/tensor.h"

// The reference kernels: one plain function per operator, right for every opset, the judge of everything faster.
// No fast paths here. f16 and bf16 are computed in f32 and rounded once per operator, as ONNX's own reference does.
namespace kvik::onnx {

// Runs a subgraph of the node (If, Loop, Scan) on the given inputs; captured values are looked up by whoever runs the kernel.
using RunSubgraph = std::function<std::vector<Tensor>(const Graph&, std::span<const Tensor> inputs)>;

struct KernelCall {
  const Node& node;
  std::span<const Tensor> inputs;  // undefined where omitted; may be shorter than the operator's list
  const RunSubgraph& run_subgraph;

  bool has(size_t i) const { return i < inputs.size() && inputs[i].defined(); }
  // Throws Error(kBadModel) with the node's name when the input is omitted.
  const Tensor& input(size_t i) const;
  // An undefined tensor when the input is omitted.
  const Tensor& optional(size_t i) const;
  bool wants(size_t output) const { return output < node.outputs.size() && node.outputs[output] != kNoValue; }
  size_t n_outputs() const { return node.outputs.size(); }
};

// Gives one tensor per output of the node, in order; an output that is not wanted may be undefined or left off the end.
using Kernel = std::vector<Tensor> (*)(const KernelCall& call);

class KernelTable {
 public:
  void add(std::string_view domain, std::string_view op, Kernel kernel) { kernels_[{domain, op}] = kernel; }
  void add(std::string_view op, Kernel kernel) { add("", op, kernel); }
  Kernel find(std::string_view domain, std::string_view op) const;  // null when unknown
  size_t size() const { return kernels_.size(); }
  std::vector<std::pair<std::string_view, std::string_view>> operators() const;  // domain and name, sorted

 private:
  std::map<std::pair<std::string_view, std::string_view>, Kernel> kernels_;  // names are literals
};

inline constexpr std::string_view kMicrosoft = "com.microsoft";

// Every kernel there is. Any thread.
const KernelTable& reference_kernels();

// Runs one node. Throws Error(kUnsupported) for an operator without a kernel, Error(kBadModel) for inputs it cannot take;
// the sentence starts with the node.
std::vector<Tensor> run_kernel(const Node& node, std::span<const Tensor> inputs, const RunSubgraph& run_subgraph = {});

}  // namespace kvik::onnx
