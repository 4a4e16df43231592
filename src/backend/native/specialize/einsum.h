#pragma once

#include <string>
#include <vector>

#include "backend/native/specialize/node_expander.h"

namespace kvik::native {

// An equation with one letter for each axis: "bhid,bhjd->bhij". An ellipsis has become letters of its own.
struct Einsum {
  std::vector<std::string> operands;
  std::string result;

  // `ranks` of the operands. Refuses an equation that does not fit them.
  static Expected<Einsum> parse(const onnx::Node& node, const std::vector<size_t>& ranks);
};

// A product of rows with rows as transposes and a matrix product, where an attention is found. False for all others. May refuse.
Expected<bool> expand_einsum(NodeExpander& expander);

}  // namespace kvik::native
