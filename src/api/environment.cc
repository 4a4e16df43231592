#include "api/environment.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvik/error.h"

namespace kvik::api {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::vector<fs::path> split_path(const std::string& list) {
  std::vector<fs::path> parts;
  size_t start = 0;
  while (start < list.size()) {
    const size_t end = std::min(list.find(':', start), list.size());
    if (end > start) parts.emplace_back(list.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

fs::path folder_of_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders = split_path(variable("KVIK_MODELS"));
  if (const fs::path program = folder_of_program(); !program.empty()) {
    folders.push_back(program.parent_path() / "models");                     // build/kvik beside models/
    folders.push_back(program.parent_path() / "share" / "kvik" / "models");  // bin/kvik of an installation
  }
  if (const std::string data = variable("XDG_DATA_HOME"); !data.empty()) {
    folders.push_back(fs::path(data) / "kvik" / "models");
  } else if (const std::string home = variable("HOME"); !home.empty()) {
    folders.push_back(fs::path(home) / ".local" / "share" / "kvik" / "models");
  }
  return folders;
}

// The active virtual environment, what `python3` on the path belongs to, and where pip puts packages of a user.
std::vector<fs::path> python_prefixes() {
  std::vector<fs::path> prefixes;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string prefix = variable(name); !prefix.empty()) prefixes.emplace_back(prefix);
  }
  for (const fs::path& folder : split_path(variable("PATH"))) {
    std::error_code missing;
    if (fs::exists(folder / "python3", missing)) prefixes.push_back(folder.parent_path());
  }
  if (const std::string home = variable("HOME"); !home.empty()) prefixes.push_back(fs::path(home) / ".local");
  prefixes.emplace_back("/usr/local");
  prefixes.emplace_back("/usr");
  return prefixes;
}

}  // namespace

Environment read_environment() { return {model_folders(), variable("KVIK_ORT_LIB"), python_prefixes()}; }

ModelPath find_model(const std::string& path_or_name, const Environment& environment) {
  std::error_code ignored;
  const fs::path path(path_or_name);
  if (fs::is_directory(path, ignored)) return {path, std::nullopt};
  if (fs::exists(path, ignored)) return {path.has_parent_path() ? path.parent_path() : fs::path("."), path};
  const bool is_name = !path_or_name.empty() && path_or_name.find('/') == std::string::npos;
  std::vector<std::string> looked;
  for (const fs::path& folder : environment.model_folders) {
    if (!is_name) break;
    if (fs::is_directory(folder / path, ignored)) return {folder / path, std::nullopt};
    looked.push_back(folder.string());
  }
  if (looked.empty()) throw Error(Code::kIo, fmt::format("{}: no such folder or file", path_or_name));
  throw Error(Code::kIo,
              fmt::format("{}: no such folder or file, and no model of that name in {}; give a folder, an .onnx file or set KVIK_MODELS",
                          path_or_name, fmt::join(looked, ", ")));
}

}  // namespace kvik::api
