#pragma once

#include <filesystem>
#include <memory>

#include "analysis/signature.h"
#include "analysis/state_pairs.h"

namespace kvik::analysis {

// Analyzes one graph with the hints from its folder. The stage is preliminary: other files of the model may change it.
File analyze_graph(std::shared_ptr<const onnx::Model> model, const std::filesystem::path& path, const Hints& hints);

}  // namespace kvik::analysis
