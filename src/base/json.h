#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace kvik {

// Keeps the order of keys.
using Json = nlohmann::ordered_json;

// Throws Error(kBadModel) with `origin` (a file's path, "standard input") and the position of the error.
Json parse_json(std::string_view text, std::string_view origin);
Json read_json_file(const std::filesystem::path& path);

}  // namespace kvik
