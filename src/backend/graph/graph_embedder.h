#pragma once

#include <functional>
#include <memory>

#include "analysis/signature.h"
#include "backend/embedder.h"
#include "backend/graph/executor.h"

namespace kvik::backend {

struct GraphEmbedderOptions {
  std::string name, device;  // of the executor
  bool pooled = false;       // the vector that the graph pools, instead of hidden states
};

// Runs the file of Signature::embedder() as a whole graph, one text at a time, so that no text is padded or shares its scales with another.
// Throws Error for a file whose inputs cannot be fed or that lacks the requested output.
std::unique_ptr<Embedder> make_graph_embedder(analysis::Signature signature, const GraphEmbedderOptions& options,
                                              const std::function<std::unique_ptr<Executor>(const analysis::File&)>& open);

}  // namespace kvik::backend
