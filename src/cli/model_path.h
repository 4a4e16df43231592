#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kvik::cli {

// Folders that hold a folder a model, the first that has a name wins: $KVIK_MODELS, models/ of the installation, the user's data folder.
struct ModelSearch {
  std::vector<std::filesystem::path> folders;
};

// What main read from the environment; empty where a variable is not set.
struct ModelEnvironment {
  std::string models;     // KVIK_MODELS: folders with a colon between them
  std::string data_home;  // XDG_DATA_HOME
  std::string home;       // HOME
};
ModelSearch make_model_search(const ModelEnvironment& environment, const std::filesystem::path& executable);

struct ModelPath {
  std::filesystem::path folder;
  std::optional<std::filesystem::path> file;  // where the user named a file and not its folder
};

// `model` is a folder, a file, or a name on the search path. Throws Error(kIo) that says where was looked.
ModelPath find_model(const std::string& model, const ModelSearch& search);

}  // namespace kvik::cli
