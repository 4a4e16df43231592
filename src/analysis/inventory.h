#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx/graph.h"

namespace kvik::analysis {

// What a file is made of.
struct Inventory {
  int64_t n_nodes = 0;                       // those of branches and bodies too
  std::map<std::string, int64_t> operators;  // "Gather", "com.microsoft.GroupQueryAttention" …: how many
  std::vector<std::string> without_kernel;   // those that the reference evaluator lacks, sorted
  std::map<DType, int64_t> weight_bytes;     // as stored
  std::set<std::string> external_files;      // as named in the model

  int64_t total_weight_bytes() const;
  void add(const Inventory& other);
};

Inventory take_inventory(const onnx::Model& model);

}  // namespace kvik::analysis
