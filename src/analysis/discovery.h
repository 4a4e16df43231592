#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/configs.h"

namespace kvik::analysis {

// The model files that a path stands for, one of each where there are several precisions.
struct Discovery {
  std::filesystem::path folder;                // that holds the config files
  std::vector<std::filesystem::path> files;    // sorted; not empty
  std::optional<std::filesystem::path> named;  // the one the user named; the others merely may belong to it
};

// Throws Error: kIo where there is nothing, kBadModel for a folder without a model, kBadArgument where several precisions
// are there and `variant` does not choose.
Discovery discover(const std::filesystem::path& path, const std::optional<std::string>& variant, const Configs& configs);

// The folder that holds the config files of a path.
std::filesystem::path config_folder(const std::filesystem::path& path);

// "decoder_model_q4f16.onnx" is the variant "q4f16" of "decoder_model".
struct VariantName {
  std::string base;
  std::string variant;  // empty for the plain one
};
VariantName variant_name(const std::filesystem::path& file);

}  // namespace kvik::analysis
