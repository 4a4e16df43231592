#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/configs.h"

namespace kvik::analysis {

// The model files at a path, one precision of each.
struct Discovery {
  std::filesystem::path folder;                // with the config files
  std::vector<std::filesystem::path> files;    // sorted; not empty
  std::optional<std::filesystem::path> named;  // the file the user named; the others may belong to it
};

// Throws Error: kIo if the path does not exist, kBadModel for a folder without a model, kBadArgument if there are several precisions and
// `variant` does not select one.
Discovery discover(const std::filesystem::path& path, const std::optional<std::string>& variant, const Configs& configs);

// The folder with the config files of a path.
std::filesystem::path config_folder(const std::filesystem::path& path);

// "decoder_model_q4f16.onnx" is the variant "q4f16" of "decoder_model", and "decoder.int8.onnx" the variant "int8" of "decoder".
struct VariantName {
  std::string base;
  std::string variant;  // empty if the name has no suffix
};
VariantName variant_name(const std::filesystem::path& file);

// One precision of each of these files: the wanted one, else the one without a suffix, else the only one. Throws Error(kBadArgument) if no
// file has the wanted one or if a choice is left; `where` begins the message.
std::vector<std::filesystem::path> choose_variants(const std::vector<std::filesystem::path>& files,
                                                   const std::optional<std::string>& wanted, const std::filesystem::path& where);

}  // namespace kvik::analysis
