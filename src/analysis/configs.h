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

// The config files of a model. Each is null if the file does not exist.
struct Configs {
  std::filesystem::path folder;  // where they were found
  Json config, generation, genai, tokenizer, kvik;

  // The first of these numbers that config.json has, also in its section for the text model.
  std::optional<int64_t> number(std::initializer_list<std::string_view> names) const;
  bool flag(std::string_view name) const;
  bool architecture_has(std::initializer_list<std::string_view> parts) const;  // in the name of the exported class
  // The same in "model" and "model.decoder" of genai_config.json.
  std::optional<int64_t> genai_number(std::string_view name) const;
};

// Reads them from `folder`, or from its parent if `folder` is named "onnx". Throws Error if one cannot be read.
Configs read_configs(const std::filesystem::path& folder);

// File names in genai_config.json; empty if there is none.
std::vector<std::string> genai_files(const Configs& configs);

// Roles that kvik.json and genai_config.json give to the ports of a file. Throws Error(kBadArgument) for an unknown role.
Hints hints_for(const Configs& configs, const std::filesystem::path& file);

SpecialTokens special_tokens(const Configs& configs);

// The maximum number of positions in the config files.
std::optional<int64_t> configured_positions(const Configs& configs);

}  // namespace kvik::analysis
