#include "api/environment.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/hub_cache.h"
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

fs::path this_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
}

// The shared library that this code is in; empty if it is part of the program.
fs::path this_library() {
  Dl_info found{};
  std::error_code missing;
  if (dladdr(reinterpret_cast<const void*>(&read_environment), &found) == 0 || found.dli_fname == nullptr) return {};
  fs::path library = fs::canonical(found.dli_fname, missing);
  return library == this_program() ? fs::path() : library;
}

// The program `kvik` that a shell would start.
fs::path kvik_on_path() {
  std::error_code missing;
  for (const fs::path& folder : split_path(variable("PATH"))) {
    if (fs::is_regular_file(folder / "kvik", missing)) return fs::canonical(folder / "kvik", missing);
  }
  return {};
}

fs::path users_data() {
  if (const std::string data = variable("XDG_DATA_HOME"); !data.empty()) return data;
  const std::string home = variable("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".local" / "share";
}

fs::path cache_folder() {
  if (const std::string folder = variable("KVIK_CACHE"); !folder.empty()) return folder;
  if (const std::string users = variable("XDG_CACHE_HOME"); !users.empty()) return fs::path(users) / "kvik";
  const std::string home = variable("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".cache" / "kvik";
}

// As huggingface_hub finds it.
fs::path hub_cache() {
  const std::string home = variable("HOME");
  const auto expanded = [&](const std::string& path) {
    return fs::path(path.starts_with("~/") && !home.empty() ? home + path.substr(1) : path);
  };
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string folder = variable(name); !folder.empty()) return expanded(folder);
  }
  if (const std::string hub = variable("HF_HOME"); !hub.empty()) return expanded(hub) / "hub";
  if (const std::string users = variable("XDG_CACHE_HOME"); !users.empty()) return fs::path(users) / "huggingface" / "hub";
  return home.empty() ? fs::path() : fs::path(home) / ".cache" / "huggingface" / "hub";
}

std::vector<fs::path> systems_data() {
  const std::string data = variable("XDG_DATA_DIRS");
  return split_path(data.empty() ? "/usr/local/share:/usr/share" : data);
}

// A program that links the static library is not part of an installation: only the folders that do not depend on it are searched.
std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders;
  const auto add = [&](const fs::path& base, const fs::path& below) {
    const fs::path folder = (below.empty() ? base : base / below).lexically_normal();
    if (!base.empty() && std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(folder);
  };
  const auto add_beside = [&](const fs::path& program) {
    add(program.parent_path(), "../models");  // build/kvik of a checkout
    add(program.parent_path(), KVIK_MODELS_FROM_BIN);
  };
  for (const fs::path& folder : split_path(variable("KVIK_MODELS"))) add(folder, {});
  add_beside(this_program());
  add(this_library().parent_path(), KVIK_MODELS_FROM_LIB);
  add(users_data(), "kvik/models");
  add_beside(kvik_on_path());
  for (const fs::path& data : systems_data()) add(data, "kvik/models");
  return folders;
}

// The active virtual environment, what `python3` on the path belongs to, and the folder of pip's user packages.
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

Environment read_environment() {
  return {.model_folders = model_folders(),
          .ort_library = variable("KVIK_ORT_LIB"),
          .cuda_library = variable("KVIK_CUDA_LIB"),
          .cache_folder = cache_folder(),
          .cache_bytes = variable("KVIK_CACHE_BYTES"),
          .hub_cache = hub_cache(),
          .python_prefixes = python_prefixes()};
}

ModelPath find_model(const std::string& path_or_name, const Environment& environment) {
  if (path_or_name.empty()) throw Error(Code::kBadArgument, "the name of the model is empty; pass a folder, an .onnx file or a name");
  std::error_code ignored;
  const fs::path path(path_or_name);
  if (fs::is_directory(path, ignored)) return {path, std::nullopt};
  if (fs::exists(path, ignored)) return {path.has_parent_path() ? path.parent_path() : fs::path("."), path};
  const bool is_name = path_or_name.find('/') == std::string::npos;
  std::vector<std::string> looked;
  for (const fs::path& folder : environment.model_folders) {
    if (!is_name) break;
    if (fs::is_directory(folder / path, ignored)) return {folder / path, std::nullopt};
    looked.push_back(folder.string());
  }
  if (const std::optional<CachedRepository> cached = find_cached_repository(environment.hub_cache, path_or_name))
    return {cached->snapshot, std::nullopt};
  if (!is_name && is_repository_name(path_or_name))
    throw Error(Code::kIo, fmt::format("{}: no such folder or file, and no model of that name in the hub cache ({}); 'kvik pull {}' "
                                       "downloads it from the hub",
                                       path_or_name, environment.hub_cache.string(), path_or_name));
  if (looked.empty()) throw Error(Code::kIo, fmt::format("{}: no such folder or file", path_or_name));
  throw Error(Code::kIo,
              fmt::format("{}: no such folder or file, and no model of that name in {}; pass a folder or an .onnx file, or set KVIK_MODELS",
                          path_or_name, fmt::join(looked, ", ")));
}

}  // namespace kvik::api
