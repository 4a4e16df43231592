#pragma once

#include <filesystem>
#include <memory>

#include "analysis/signature.h"
#include "analysis/state_pairs.h"

namespace kvik::analysis {

// The analysis of one graph with what its folder says about it. The stage is told as far as the file alone can tell it.
File analyze_graph(std::shared_ptr<const onnx::Model> model, const std::filesystem::path& path, const Hints& hints);

}  // namespace kvik::analysis
