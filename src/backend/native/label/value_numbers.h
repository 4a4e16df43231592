#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "backend/native/graph/labels.h"
#include "tensor/tensor.h"

namespace kvik::native {

// Value numbering: equal numbers, equal contents at every size. Exporters write masks and positions once per layer; sharing them makes
// probing cheap and tables few (common-subexpression elimination), and layers whose attention computes the same are probed once.
// Constants of up to a few megabytes count by content, row values by themselves, the shape of a row value by its axes.
class ValueNumbers {
 public:
  explicit ValueNumbers(const Labels& labels) : labels_(&labels) {}

  int number(onnx::ValueId id);

  // The outputs of the first node that was asked about and computes the same; those of the node itself if it is the first.
  std::vector<onnx::ValueId> first_outputs(onnx::NodeId id);

  // Names what is computed from `from` up to `to`, the same for every pair of values between which the same is computed.
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
