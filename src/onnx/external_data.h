#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"

namespace kvik::onnx {

// The files next to a model that contain its weights, each mapped once.
//
// A file name inside a model is not trusted: it must be relative and must not contain "..". Symbolic links in the folder are the user's
// own and are followed (the Hugging Face cache consists of links).
class ExternalData {
 public:
  // Without a folder (a model read from memory) every external name is refused.
  ExternalData() = default;
  explicit ExternalData(std::filesystem::path folder) : folder_(std::move(folder)), has_folder_(true) {}

  // Throws Error(kBadModel) for a name that leaves the folder, Error(kIo) if the file does not exist.
  std::shared_ptr<const MappedFile> open(std::string_view name);
  // All that open() returned.
  std::vector<std::shared_ptr<const MappedFile>> files() const;

 private:
  std::filesystem::path folder_;
  bool has_folder_ = false;
  std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>> files_;
};

}  // namespace kvik::onnx
