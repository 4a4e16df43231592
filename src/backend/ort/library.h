#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/ort/api.h"

namespace kvik::backend::ort {

// Where the shared library may be. The first that opens is taken.
struct LibrarySearch {
  std::filesystem::path library;                       // said by the user: only this one
  std::vector<std::filesystem::path> python_prefixes;  // of environments that may have the onnxruntime package
};

// The file that would be opened, without opening it; empty where none was found (the system may still have one on its own path).
std::filesystem::path find_library(const LibrarySearch& search);

// The opened runtime. One per process is enough; it is never closed, because its threads may outlive whoever opened it.
class Library {
 public:
  // Throws Error(kIo) with the command that gets the library when there is none, and with the reason when one does not open,
  // is for another machine, or is older than 1.14.
  static std::shared_ptr<const Library> open(const LibrarySearch& search);

  const Api& api() const { return api_; }
  Env* env() const { return env_; }
  // Sessions may take their memory from ours.
  bool has_huge_pages() const { return has_huge_pages_; }
  const std::string& version() const { return version_; }
  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> providers() const;  // "CPUExecutionProvider", …

  // Turns a status into Error(kBadModel) with `doing` in front; null is success.
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
