#include "cli/model_path.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvik/error.h"

namespace kvik::cli {

namespace fs = std::filesystem;

ModelSearch make_model_search(const ModelEnvironment& environment, const fs::path& executable) {
  ModelSearch search;
  for (size_t begin = 0; begin < environment.models.size();) {
    const size_t end = std::min(environment.models.find(':', begin), environment.models.size());
    if (end > begin) search.folders.emplace_back(environment.models.substr(begin, end - begin));
    begin = end + 1;
  }
  if (!executable.empty()) {  // beside the build folder of a checkout, or below the prefix of an installation
    search.folders.push_back(executable.parent_path().parent_path() / "models");
    search.folders.push_back(executable.parent_path().parent_path() / "share" / "kvik" / "models");
  }
  if (!environment.data_home.empty()) {
    search.folders.push_back(fs::path(environment.data_home) / "kvik" / "models");
  } else if (!environment.home.empty()) {
    search.folders.push_back(fs::path(environment.home) / ".local" / "share" / "kvik" / "models");
  }
  return search;
}

ModelPath find_model(const std::string& model, const ModelSearch& search) {
  std::error_code ignored;
  const fs::path path(model);
  if (fs::is_directory(path, ignored)) return {path, std::nullopt};
  if (fs::is_regular_file(path, ignored)) return {path.has_parent_path() ? path.parent_path() : fs::path("."), path};
  const bool is_name = !model.empty() && model.find('/') == std::string::npos && model != "." && model != "..";
  std::vector<std::string> looked;
  for (const fs::path& folder : search.folders) {
    if (!is_name) break;
    if (fs::is_directory(folder / path, ignored)) return {folder / path, std::nullopt};
    looked.push_back(folder.string());
  }
  throw Error(
      Code::kIo,
      looked.empty()
          ? fmt::format("{}: no such folder or file", model)
          : fmt::format("{}: no such folder or file, and no model of that name in {}; give a folder, an .onnx file or set KVIK_MODELS",
                        model, fmt::join(looked, ", ")));
}

}  // namespace kvik::cli
