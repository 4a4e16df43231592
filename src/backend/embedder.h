#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/token.h"
#include "tensor/tensor.h"

namespace kvik::backend {

// The properties of an Embedder.
struct EmbedderTraits {
  std::string name;                         // "native", "ort", "reference"
  std::string device;                       // "cpu", "cuda"
  bool exact = false;                       // results have equal bits for any batch, number of threads and instruction set
  bool pooled = false;                      // one vector per text, pooled by the graph, instead of one per token
  int size = 0;                             // of a vector
  int vocab = 0;                            // 0: unknown
  int max_positions = 0;                    // 0: unknown
  std::vector<TokenId> unsupported_tokens;  // cannot be in a text
  size_t weights_bytes = 0;
};

// A loaded model that turns texts into hidden states, or into the vector that its graph pools from them. Any thread.
class Embedder {
 public:
  virtual ~Embedder() = default;
  virtual const EmbedderTraits& traits() const = 0;
  // [tokens, size], or [1, size] if the graph pools, in f32, for each text of one or more tokens; each the same as alone. All texts run
  // together if the backend supports it, so the caller decides on the amount per call.
  virtual std::vector<Tensor> run(std::span<const std::vector<TokenId>> texts) = 0;
};

}  // namespace kvik::backend
