#pragma once

#include <functional>
#include <initializer_list>
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

// What an evaluation may still do, in steps of about a multiplication each. A kernel that does more than to read its inputs and to write
// results that follow from their shapes (a product, a window, a size that stands in a number) takes its steps before it begins.
class Work {
 public:
  Work() = default;                               // without a limit
  explicit Work(int64_t& left) : left_(&left) {}  // counts `left` down, which must outlive it

  // As many steps as the product of these; throws Error(kTooLarge) where fewer are left.
  void take(std::initializer_list<int64_t> factors) const { take({}, factors); }
  void take(const Dims& results, std::initializer_list<int64_t> for_each = {}) const;

 private:
  int64_t* left_ = nullptr;
};

struct KernelCall {
  const Node& node;
  std::span<const Tensor> inputs;  // undefined where omitted; may be shorter than the operator's list
  const RunSubgraph& run_subgraph;
  Work work;

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

// Runs one node. Throws Error(kUnsupported) for an operator without a kernel, Error(kBadModel) for inputs it cannot take,
// Error(kTooLarge) where the work does not suffice; the sentence starts with the node.
std::vector<Tensor> run_kernel(const Node& node, std::span<const Tensor> inputs, const RunSubgraph& run_subgraph = {}, Work work = {});

}  // namespace kvik::onnx
