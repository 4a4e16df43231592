#pragma once

#include <filesystem>

#include "analysis/signature.h"
#include "tensor/tensor.h"

namespace kvik::cli {

// Numbers between -1 and 1 that are all different things to a model, of a shape that its encoder reads, without a batch axis. Sizes that
// the port does not say come from the config files of the folder, or are usual ones.
Tensor synthetic_features(const analysis::Port& port, const std::filesystem::path& folder, int seed);

}  // namespace kvik::cli
