#pragma once

#include <map>
#include <string>

#include "onnx/eval/kernel.h"

namespace kvik::onnx {

// Tensors by graph input name.
using Feeds = std::map<std::string, Tensor, std::less<>>;

// Runs a whole graph with the reference kernels, node by node, and frees each value after its last use.
// The graph must outlive the evaluator. Weights are loaded once, by the first run. One thread at a time.
class Evaluator {
 public:
  // Nodes that the branches and loops of one run may execute in total: a scan over a long prompt needs a hundredth of it, and nested
  // loops made to hang fail within seconds.
  static constexpr int64_t kMostInnerNodes = 10'000'000;

  explicit Evaluator(const Graph& graph, int64_t most_inner_nodes = kMostInnerNodes);

  // One tensor per graph output, in order. Throws Error(kBadArgument) for a feed that is missing or unknown, Error(kTooLarge) if loops
  // exceed the limit.
  std::vector<Tensor> run(const Feeds& feeds);

 private:
  const Graph& graph_;
  int64_t most_inner_nodes_;
  std::vector<Tensor> weights_;   // per initializer, loaded
  std::vector<NodeId> last_use_;  // per value; kNoNode if no node reads it
};

}  // namespace kvik::onnx
