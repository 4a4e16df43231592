#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx/graph.h"

namespace kvik::analysis {

// Operators and weights of a file.
struct Inventory {
  int64_t n_nodes = 0;                       // including subgraphs
  std::map<std::string, int64_t> operators;  // "Gather", "com.microsoft.GroupQueryAttention" ...: number of nodes
  std::vector<std::string> without_kernel;   // operators without a reference kernel, sorted
  std::map<DType, int64_t> weight_bytes;     // as stored
  std::set<std::string> external_files;      // as named in the model

  int64_t total_weight_bytes() const;
  void add(const Inventory& other);
};

Inventory take_inventory(const onnx::Model& model);

}  // namespace kvik::analysis
