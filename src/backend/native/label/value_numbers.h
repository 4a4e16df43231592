#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "backend/native/graph/labels.h"
#include "tensor/tensor.h"

namespace kvik::native {

// Value numbering: equal numbers, equal contents at every size. Exporters write masks and positions once per layer; common-subexpression
// elimination makes probing cheap and keeps the number of tables small, and layers with the same attention are probed once. Constants of up
// to a few megabytes are compared by content, row values by identity, the shape of a row value by its axes.
class ValueNumbers {
 public:
  explicit ValueNumbers(const Labels& labels) : labels_(&labels) {}

  int number(onnx::ValueId id);

  // The outputs of the first node that computes the same; those of the node itself if it is the first.
  std::vector<onnx::ValueId> first_outputs(onnx::NodeId id);

  // A number for the computation from `from` to `to`: equal for equal computations.
  std::string between(onnx::ValueId from, onnx::ValueId to);

 private:
  using Numbers = std::unordered_map<onnx::ValueId, int>;

  int intern(const std::string& key);
  int number_constant(const onnx::TensorData& data);
  bool is_leaf(onnx::ValueId id) const;
  int number_leaf(onnx::ValueId id);
  std::string node_key(const onnx::Node& node, const Numbers& local);
  void number_all(onnx::ValueId target, Numbers& local);

  const Labels* labels_;
  std::unordered_map<std::string, int> known_;
  std::unordered_map<std::string, std::vector<std::pair<Tensor, int>>> constants_;  // by a sample of their contents
  Numbers of_value_;
  std::unordered_map<int, onnx::ValueId> first_;  // by number
};

}  // namespace kvik::native
