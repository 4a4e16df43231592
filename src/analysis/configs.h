#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/signature.h"
#include "analysis/state_pairs.h"
#include "base/json.h"

namespace kvik::analysis {

// The files beside a model that say what its graph does not. Each is null where there is no such file.
struct Configs {
  std::filesystem::path folder;  // that they were found in
  Json config, generation, genai, tokenizer, kvik;

  // A number of config.json under the first of these names that has one, also inside the part that describes the text model.
  std::optional<int64_t> number(std::initializer_list<std::string_view> names) const;
  bool flag(std::string_view name) const;
  bool architecture_has(std::initializer_list<std::string_view> parts) const;  // of the class that was exported
  // The same of "model" and "model.decoder" in genai_config.json.
  std::optional<int64_t> genai_number(std::string_view name) const;
};

// Reads them from `folder`, and from the folder above where `folder` is its "onnx". Throws Error for one that cannot be read.
Configs read_configs(const std::filesystem::path& folder);

// Files that genai_config.json names, as written there; empty without one.
std::vector<std::string> genai_files(const Configs& configs);

// What kvik.json and genai_config.json say about the ports of a file. Throws Error(kBadArgument) for a role that there is not.
Hints hints_for(const Configs& configs, const std::filesystem::path& file);

SpecialTokens special_tokens(const Configs& configs);

// Positions that the configs allow.
std::optional<int64_t> configured_positions(const Configs& configs);

}  // namespace kvik::analysis
