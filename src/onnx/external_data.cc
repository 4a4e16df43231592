#include "onnx/external_data.h"

#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::onnx {
namespace {

// Backslashes count as separators too, as on Windows.
bool leaves_folder(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.front() == '\\') return true;
  if (name.find('\0') != std::string_view::npos) return true;
  if (name.size() >= 2 && name[1] == ':') return true;
  size_t start = 0;
  while (start <= name.size()) {
    const size_t end = std::min(name.find_first_of("/\\", start), name.size());
    if (name.substr(start, end - start) == "..") return true;
    start = end + 1;
  }
  return false;
}

}  // namespace

std::shared_ptr<const MappedFile> ExternalData::open(std::string_view name) {
  if (leaves_folder(name)) {
    throw Error(Code::kBadModel,
                fmt::format("external data '{}' is outside the model's folder; expected a relative path without '..'", name));
  }
  if (const auto known = files_.find(name); known != files_.end()) return known->second;
  if (!has_folder_)
    throw Error(Code::kUnsupported, fmt::format("a model read from memory cannot have external data ('{}'); open it by its path", name));
  const std::filesystem::path path = folder_ / std::filesystem::path(name);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw Error(Code::kIo, fmt::format("the external data file '{}' is missing in {}; copy it next to the model", name, folder_.string()));
  }
  return files_.emplace(name, MappedFile::open(path)).first->second;
}

std::vector<std::shared_ptr<const MappedFile>> ExternalData::files() const {
  std::vector<std::shared_ptr<const MappedFile>> files;
  for (const auto& [name, file] : files_) files.push_back(file);
  return files;
}

}  // namespace kvik::onnx
