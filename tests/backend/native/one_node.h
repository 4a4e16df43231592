#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "backend/native/execute/weight_choice.h"
#include "backend/native/graph/program.h"

namespace kvik::native::testing_support {

// An operand of a node: rows with these dims, or a constant.
struct NodeInput {
  Dims row_dims;
  Tensor constant;  // where it is defined

  static NodeInput row(Dims dims) { return {std::move(dims), {}}; }
  static NodeInput fixed(Tensor tensor) { return {{}, std::move(tensor)}; }
};

struct NodeCase {
  std::string op;
  std::vector<NodeInput> inputs;
  std::vector<onnx::Attribute> attributes = {};
  std::string domain = {};
  int opset = 18;
};

// Numbers that look random and are always the same, around zero.
std::vector<float> noise(int64_t n, int seed = 1);
Tensor noise_tensor(Dims dims, int seed = 1);

struct NodeAnswer {
  std::vector<float> native, reference;  // all rows of the first output
  std::vector<std::string> kinds;        // operations of the plan
};

// The node by itself, as a program over three rows: the results of its plan, and of its reference kernel for each row.
NodeAnswer run_node(const NodeCase& one, WeightChoice weights = WeightChoice::kAsStored);

}  // namespace kvik::native::testing_support
