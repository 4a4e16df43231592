#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kvik::api {

// The environment of the process. It is read only here and passed down.
struct Environment {
  // $KVIK_MODELS, models/ of this program's or library's installation, the user's data folder, system-wide data folders.
  std::vector<std::filesystem::path> model_folders;
  std::filesystem::path ort_library;                   // $KVIK_ORT_LIB; empty when not set
  std::filesystem::path cuda_library;                  // $KVIK_CUDA_LIB
  std::filesystem::path cache_folder;                  // $KVIK_CACHE, $XDG_CACHE_HOME/kvik, ~/.cache/kvik; empty if none is set
  std::string cache_bytes;                             // $KVIK_CACHE_BYTES
  std::filesystem::path hub_cache;                     // $HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub; empty if none is set
  std::vector<std::filesystem::path> python_prefixes;  // prefixes to search for the onnxruntime package
};
Environment read_environment();

struct ModelPath {
  std::filesystem::path folder;
  std::optional<std::filesystem::path> file;  // set if the user named a file instead of its folder

  const std::filesystem::path& path() const { return file ? *file : folder; }
};

// A folder, an .onnx file, the name of a model in one of the folders, or a repository in the hub cache. Throws Error(kIo) that lists the
// folders searched.
ModelPath find_model(const std::string& path_or_name, const Environment& environment);

}  // namespace kvik::api
