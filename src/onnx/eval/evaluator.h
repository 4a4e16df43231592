#pragma once

#include <map>
#include <string>

#include "onnx/eval/kernel.h"

namespace kvik::onnx {

// Tensors by the name of the graph input.
using Feeds = std::map<std::string, Tensor, std::less<>>;

// Runs a whole graph with the reference kernels, node by node, and drops each value after its last use.
// The graph must outlive the evaluator. Weights are loaded once, by the first run. Not for use by two threads at a time.
class Evaluator {
 public:
  // Nodes that the branches and loops of one run may run together: a scan over a long prompt needs a hundredth of it, and a nest of loops
  // that was made to hang is an error within seconds.
  static constexpr int64_t kMostInnerNodes = 10'000'000;

  explicit Evaluator(const Graph& graph, int64_t most_inner_nodes = kMostInnerNodes);

  // One tensor per graph output, in order. Throws Error(kBadArgument) for a feed that is missing or unknown, Error(kTooLarge) when loops
  // exceed the limit above.
  std::vector<Tensor> run(const Feeds& feeds);

 private:
  const Graph& graph_;
  int64_t most_inner_nodes_;
  std::vector<Tensor> weights_;   // per initializer, loaded
  std::vector<NodeId> last_use_;  // per value; kNoNode when no node reads it
};

}  // namespace kvik::onnx
