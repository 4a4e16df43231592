#pragma once

#include <gmock/gmock.h>
#include <string>
#include <utility>
#include <vector>

#include "tensor/dtype.h"

namespace kvik::testing_support {

// Writes small ONNX files, right or wrong, without a protobuf library.
class ModelWriter {
 public:
  struct Node {
    std::string op;
    std::vector<std::string> inputs, outputs;
    std::string domain = {};
    std::vector<std::pair<std::string, int64_t>> ints = {};
    std::vector<std::pair<std::string, std::vector<int64_t>>> int_lists = {};
  };

  int64_t ir_version = 9;
  int64_t opset = 18;

  // A dimension is a number or a symbol.
  void input(const std::string& name, DType dtype, const std::vector<std::string>& dims);
  void output(const std::string& name, DType dtype, const std::vector<std::string>& dims);
  void weight(const std::string& name, DType dtype, const std::vector<int64_t>& dims, const std::string& raw);
  void weight_without_data(const std::string& name, DType dtype, const std::vector<int64_t>& dims);
  void external_weight(const std::string& name, DType dtype, const std::vector<int64_t>& dims, const std::string& file, int64_t offset);
  // A whole TensorProto, for forms that the calls above do not write.
  void raw_initializer(const std::string& message) { initializers_.push_back(message); }
  void node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
    nodes_.push_back({op, inputs, outputs});
  }
  void node(Node node) { nodes_.push_back(std::move(node)); }
  void call(const std::string& domain, const std::string& function, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs) {
    nodes_.push_back({function, inputs, outputs, domain});
  }
  void function(const std::string& domain, const std::string& name, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs, const std::vector<Node>& nodes);

  std::string bytes() const;

 private:
  std::vector<std::string> inputs_, outputs_, initializers_, functions_;
  std::vector<Node> nodes_;
};

// An If inside an If, `depth` times.
std::string nested_model(int depth);

}  // namespace kvik::testing_support
