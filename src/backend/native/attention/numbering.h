#pragma once

#include <string>
#include <unordered_map>

#include "backend/native/attention/attention.h"

namespace kvik::native {

// Numbers values by how they are computed: equal numbers, equal contents at every size. Constants of up to a few megabytes count by
// content, row values by themselves; the shape of a row value counts by its axes.
class Numbering {
 public:
  explicit Numbering(const Labels& labels) : labels_(&labels) {}

  int number(onnx::ValueId id);

  // What is computed from `from` up to `to`, in words that are the same for every pair of values between which the same is computed.
  std::string between(onnx::ValueId from, onnx::ValueId to);

 private:
  using Numbers = std::unordered_map<onnx::ValueId, int>;

  int intern(const std::string& key);
  std::string leaf_key(onnx::ValueId id);
  bool is_leaf(onnx::ValueId id);
  std::string node_key(const onnx::Node& node, const Numbers& local);
  void number_all(onnx::ValueId target, Numbers& local);

  const Labels* labels_;
  std::unordered_map<std::string, int> known_;
  Numbers of_value_;
};

}  // namespace kvik::native
