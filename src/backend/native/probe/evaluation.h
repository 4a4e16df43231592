#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/native/graph/refusal.h"
#include "onnx/eval/kernel.h"
#include "onnx/graph.h"

// Runs reference kernels for the compiler: in f32, and within a budget, because a graph may be hostile.
namespace kvik::native {

// f16, bf16 and f64 as f32; anything else as it is.
Tensor as_f32(Tensor tensor);
bool is_computed_as_f32(DType dtype);  // f32, f16, bf16, f64

// The remaining budget of an evaluation; each node takes its share.
struct WorkBudget {
  int64_t largest_bytes = int64_t{1} << 28;  // of one result
  int64_t bytes_left = int64_t{1} << 32;     // read and written by all nodes together
  int64_t steps_left = int64_t{1} << 30;     // see onnx::Work; the masks of a decoder of 0.5B parameters take 3 million
};

// A value at some sizes, or the reason why the graph does not define it there: a kernel fails (for instance, a baked-in table is too small
// for these sizes), or the result would be too large.
template <class T>
struct Evaluated {
  std::optional<T> value;
  std::string failure;

  explicit operator bool() const { return value.has_value(); }
  T& operator*() { return *value; }
  const T& operator*() const { return *value; }
  T* operator->() { return &*value; }
  const T* operator->() const { return &*value; }
};

template <class T>
Evaluated<T> evaluated(T value) {
  return {std::move(value), {}};
}

// The only place where an Error of the evaluator is caught: returns the result of `work`, or the message of its Error. Within the compiler
// this means that the value cannot be computed, not that the file is broken.
template <class Work>
auto evaluate(const Work& work) -> Evaluated<decltype(work())> {
  try {
    return evaluated(work());
  } catch (const Error& error) { return {{}, error.what()}; }
}

using ValueOf = std::function<Tensor(onnx::ValueId)>;
using ExpectedValueOf = std::function<Expected<Tensor>(onnx::ValueId)>;

// The outputs of one node on the values of its inputs (and of what its subgraphs capture). Throws Error as the kernel does, and
// Error(kTooLarge) if the budget is exceeded.
std::vector<Tensor> run_node(const onnx::Node& node, const ValueOf& value_of, WorkBudget& budget);

// The same, but returns the kernel's Error as a value. Refuses if one of its inputs is refused.
Expected<Evaluated<std::vector<Tensor>>> try_run_node(const onnx::Node& node, const ExpectedValueOf& value_of, WorkBudget& budget);

// Runs all nodes of a graph on one tensor per input; `outside` supplies captured values. Returns one tensor per output.
std::vector<Tensor> run_graph(const onnx::Graph& graph, std::span<const Tensor> inputs, const ValueOf& outside, WorkBudget& budget);

// The nodes that must run to compute `target`, in topological order; `known` values need no nodes. Values that are neither known nor
// computed by a node are added to `missing`, unless it is null.
std::vector<onnx::NodeId> nodes_needed(const onnx::Graph& graph, onnx::ValueId target, const std::function<bool(onnx::ValueId)>& known,
                                       std::vector<onnx::ValueId>* missing = nullptr);

}  // namespace kvik::native
