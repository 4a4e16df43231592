#pragma once

#include <string>
#include <vector>

#include "analysis/inventory.h"
#include "analysis/signature.h"
#include "backend/native/report.h"
#include "base/json.h"

namespace kvik::cli {

// What would run a model here, and why.
struct ChosenBackend {
  std::string chosen;  // "none" where nothing can
  std::string why;
};

// What the native backend makes of one stage.
struct StagePlan {
  std::string stage;  // "decoder", "encoder", "embedding"
  native::PlanReport report;
  std::string refused;  // why there is no plan; empty where there is one
};

// Everything `kvik inspect` shows.
struct Inspection {
  analysis::Signature signature;
  std::vector<analysis::Inventory> inventories;  // one a file
  ChosenBackend backend;
  std::vector<StagePlan> plans;  // empty where the native backend does not take the model
};

Json inspection_json(const Inspection& inspection);
std::string inspection_table(const Inspection& inspection, bool color);

// "14.3 MB"
std::string size_in_words(int64_t n_bytes);
// A file's path as seen from the model's folder.
std::string path_in_folder(const analysis::Signature& signature, const analysis::File& file);

// Ports whose names differ only in a layer number, or in that and the words after it, are one line.
struct PortLine {
  std::string name;  // "past_key_values.{0..27}.key/.value"
  std::string dtype;
  std::string shape;
  std::string role;
};
std::vector<PortLine> port_lines(const std::vector<analysis::Port>& ports);

}  // namespace kvik::cli
