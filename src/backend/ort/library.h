#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/ort/api.h"

namespace kvik::backend::ort {

// Where to look for the shared library; the first that opens is used.
struct LibrarySearch {
  std::filesystem::path library;                       // set by the user: try only this one
  std::vector<std::filesystem::path> python_prefixes;  // Python environments that may have the onnxruntime package
};

// The file that would be opened; empty if none was found (the dynamic loader may still find one).
std::filesystem::path find_library(const LibrarySearch& search);

// The opened runtime. It is never closed, because its threads may outlive its users.
class Library {
 public:
  // Throws Error(kIo) if no library was found, or if it cannot be opened or is too old.
  static std::shared_ptr<const Library> open(const LibrarySearch& search);

  const Api& api() const { return api_; }
  Env* env() const { return env_; }
  // Sessions can allocate from Kvik's arena.
  bool has_huge_pages() const { return has_huge_pages_; }
  const std::string& version() const { return version_; }
  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> providers() const;  // "CPUExecutionProvider", …

  // Throws Error(kBadModel) for a status other than null (success); the message begins with `doing`.
  void check(Status* status, const std::string& doing) const;

 private:
  Library(Api api, std::string version, std::filesystem::path path);

  Api api_;
  Env* env_ = nullptr;
  bool has_huge_pages_ = false;
  std::string version_;
  std::filesystem::path path_;
};

}  // namespace kvik::backend::ort
