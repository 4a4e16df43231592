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

// The graph goes one way up to a length of the whole sequence and another beyond it. Each may well be a program.
class LengthSwitch : public Refusal {
 public:
  LengthSwitch(const std::string& reason, int64_t after) : Refusal(reason), after_(after) {}
  int64_t after() const { return after_; }

 private:
  int64_t after_;
};

}  // namespace kvik::native
