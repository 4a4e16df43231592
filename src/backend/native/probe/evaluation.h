#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/native/graph/refusal.h"
#include "onnx/eval/kernel.h"
#include "onnx/graph.h"

// The reference kernels as the compiler uses them: everything in f32, and within bounds, since a graph may be hostile.
namespace kvik::native {

// f16, bf16 and f64 as f32; anything else as it is.
Tensor as_f32(Tensor tensor);
bool is_computed_as_f32(DType dtype);  // f32, f16, bf16, f64

// What an evaluation may still make; each node takes its part.
struct WorkBudget {
  int64_t largest_bytes = int64_t{1} << 28;  // of one result
  int64_t bytes_left = int64_t{1} << 32;     // read and written by all nodes together
  int64_t steps_left = int64_t{1} << 30;     // see onnx::Work; the masks of a decoder of 0.5B parameters take 3 million
};

// A value at some sizes, or why the graph does not define it there: a kernel fails (a baked-in table is too small for these sizes, for
// instance), or the result would be absurdly large.
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

// The one place where an Error of the evaluator is caught: what `work` returns, or the sentence of the Error it throws. Within the
// compiler it means that these numbers cannot be computed, not that the file is broken.
template <class Work>
auto evaluate(const Work& work) -> Evaluated<decltype(work())> {
  try {
    return evaluated(work());
  } catch (const Error& error) { return {{}, error.what()}; }
}

using ValueOf = std::function<Tensor(onnx::ValueId)>;
using ExpectedValueOf = std::function<Expected<Tensor>(onnx::ValueId)>;

// The outputs of one node on the values of its inputs (and of what its subgraphs capture). Throws Error as the kernel does,
// and Error(kTooLarge) where the budget does not suffice.
std::vector<Tensor> run_node(const onnx::Node& node, const ValueOf& value_of, WorkBudget& budget);

// The same with the kernel's Error as a value. Refuses if a value that it reads is refused.
Expected<Evaluated<std::vector<Tensor>>> try_run_node(const onnx::Node& node, const ExpectedValueOf& value_of, WorkBudget& budget);

// All nodes of a graph, on one tensor for each of its inputs; `outside` gives what it captures. One tensor per output.
std::vector<Tensor> run_graph(const onnx::Graph& graph, std::span<const Tensor> inputs, const ValueOf& outside, WorkBudget& budget);

// The nodes that must run for `target`, each after those it reads; `known` values need none. Values that are not known and that no node
// computes are added to `missing`, unless it is null.
std::vector<onnx::NodeId> nodes_needed(const onnx::Graph& graph, onnx::ValueId target, const std::function<bool(onnx::ValueId)>& known,
                                       std::vector<onnx::ValueId>* missing = nullptr);

}  // namespace kvik::native
