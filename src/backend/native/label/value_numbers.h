#pragma once

#include <string>
#include <unordered_map>

#include "backend/native/graph/labels.h"

namespace kvik::native {

// Finds nodes that compute what another one computes already. Exporters spell masks and positions once a layer; sharing them makes
// probing cheap and tables few. A Shape of rows is told by the rows' axes.
class ValueNumbers {
 public:
  explicit ValueNumbers(const Labels& labels) : labels_(&labels) {}

  // The node that computes the same, or `id` itself when it is the first.
  onnx::NodeId same_as(onnx::NodeId id);

 private:
  std::string key_of(const onnx::Node& node) const;

  const Labels* labels_;
  std::unordered_map<std::string, onnx::NodeId> seen_;
};

}  // namespace kvik::native
