#pragma once

#include "kvik/error.h"
#include "onnx/graph.h"

namespace kvik::native {

// The graph is sound, but is no program over rows as far as the compiler can prove it. The sentence names the node.
class Refusal : public Error {
 public:
  explicit Refusal(const std::string& reason) : Error(Code::kUnsupported, reason) {}
  Refusal(const onnx::Node& node, const std::string& reason) : Error(Code::kUnsupported, node.describe() + ": " + reason) {}
};

}  // namespace kvik::native
