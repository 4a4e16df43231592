#pragma once

#include <filesystem>
#include <vector>

#include "analysis/signature.h"
#include "base/token.h"
#include "tensor/tensor.h"

// Inputs for models if the user gives none: the same each time.
namespace kvik::laws {

// Ids from the whole vocabulary: 12 of them, or `limit` if that is less and not 0.
std::vector<TokenId> synthetic_prompt(int vocab, int limit);

// Numbers between -1 and 1 in a shape that the encoder reads, without a batch axis. Sizes that the port does not declare come from the
// config files of the folder, or are common ones.
Tensor synthetic_features(const analysis::Port& port, const std::filesystem::path& folder, int seed);

}  // namespace kvik::laws
