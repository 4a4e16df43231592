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

// The reference kernels: one simple function per operator, correct for every opset; faster code is checked against them.
// No fast paths here. f16 and bf16 are computed in f32 and rounded once per operator, as in ONNX's own reference.
namespace kvik::onnx {

// Runs a subgraph of the node (If, Loop, Scan) on the given inputs; the caller resolves captured values.
using RunSubgraph = std::function<std::vector<Tensor>(const Graph&, std::span<const Tensor> inputs)>;

// A budget for an evaluation, in steps of about one multiplication. A kernel that does more than read its inputs and write outputs of a
// similar size (a matmul, a window, a size given as a value) takes its steps before it begins.
class Work {
 public:
  Work() = default;                               // unlimited
  explicit Work(int64_t& left) : left_(&left) {}  // counts down `left`, which must outlive it

  // Takes the product of these; throws Error(kTooLarge) if fewer steps are left.
  void take(std::initializer_list<int64_t> factors) const { take({}, factors); }
  void take(const Dims& results, std::initializer_list<int64_t> for_each = {}) const;

 private:
  int64_t* left_ = nullptr;
};

struct KernelCall {
  const Node& node;
  std::span<const Tensor> inputs;  // undefined if omitted; trailing ones may be missing
  const RunSubgraph& run_subgraph;
  Work work;

  bool has(size_t i) const { return i < inputs.size() && inputs[i].defined(); }
  // Throws Error(kBadModel) if the input is omitted.
  const Tensor& input(size_t i) const;
  // An undefined tensor if the input is omitted.
  const Tensor& optional(size_t i) const;
  // The same by a number of onnx/attention_operators.h: -1 is an input that the operator does not have.
  bool has(int i) const { return i >= 0 && has(static_cast<size_t>(i)); }
  const Tensor& input(int i) const { return input(static_cast<size_t>(i)); }
  const Tensor& optional(int i) const { return optional(static_cast<size_t>(i)); }
  bool wants(int output) const { return output >= 0 && wants(static_cast<size_t>(output)); }
  bool wants(size_t output) const { return output < node.outputs.size() && node.outputs[output] != kNoValue; }
  size_t n_outputs() const { return node.outputs.size(); }
};

// Returns one tensor per output of the node, in order; unused outputs may be undefined or missing at the end.
using Kernel = std::vector<Tensor> (*)(const KernelCall& call);

class KernelTable {
 public:
  void add(std::string_view domain, std::string_view op, Kernel kernel) { kernels_[{domain, op}] = kernel; }
  void add(std::string_view op, Kernel kernel) { add("", op, kernel); }
  Kernel find(std::string_view domain, std::string_view op) const;  // null if unknown
  size_t size() const { return kernels_.size(); }
  std::vector<std::pair<std::string_view, std::string_view>> operators() const;  // domain and name, sorted

 private:
  std::map<std::pair<std::string_view, std::string_view>, Kernel> kernels_;  // names are string literals
};

inline constexpr std::string_view kMicrosoft = "com.microsoft";

// All kernels. Any thread.
const KernelTable& reference_kernels();

// Runs one node. Throws Error(kUnsupported) for an operator without a kernel, Error(kBadModel) for invalid inputs,
// Error(kTooLarge) if the work exceeds the budget; the message begins with the node.
std::vector<Tensor> run_kernel(const Node& node, std::span<const Tensor> inputs, const RunSubgraph& run_subgraph = {}, Work work = {});

}  // namespace kvik::onnx
