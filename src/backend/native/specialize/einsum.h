#pragma once

#include <string>
#include <vector>

#include "backend/native/specialize/node_expander.h"

namespace kvik::native {

// An equation with one letter for each axis: "bhid,bhjd->bhij". An ellipsis is replaced by further letters.
struct Einsum {
  std::vector<std::string> operands;
  std::string result;

  // `ranks`: of the operands. Refuses an equation that does not match them.
  static Expected<Einsum> parse(const onnx::Node& node, const std::vector<size_t>& ranks);
};

// Replaces a product of rows with rows by transposes and a MatMul, in which attention can be recognized. False for all others. May refuse.
Expected<bool> expand_einsum(NodeExpander& expander);

}  // namespace kvik::native
