#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/driver.h"

namespace kvik::cuda {

// What libkvik-cuda.so holds: data only, one symbol `kvik_cuda_kernels`. kernels.cmake writes it.
struct KernelFile {
  const char* name;   // "rows": the names of its kernels begin with it
  const void* bytes;  // a fat binary
  uint64_t n_bytes;
};
struct KernelTable {
  const char* version;  // of the sources of kernels and of the structs they take
  const char* arch;     // "sm_90a"
  const KernelFile* files;
  uint64_t n_files;
};

// Where the library is looked for: `library` if it is named, otherwise each of the folders, otherwise by its name alone. The folder of the
// running program or library is always among them.
struct KernelSearch {
  std::filesystem::path library;
  std::vector<std::filesystem::path> folders;
};
// Throws Error(kIo) if it is not found, Error(kUnsupported) if it was made for another version of Kvik.
const KernelTable& open_kernels(const KernelSearch& search);

// The kernels of a table, loaded into the current context of the driver.
class Modules {
 public:
  Modules(std::shared_ptr<const Driver> driver, const KernelTable& table);
  ~Modules();
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  // Throws Error(kInternal) if no file has it.
  Function get(const std::string& name, int shared_bytes = 0);

 private:
  struct Found {
    Function function = nullptr;
    int shared_bytes = 0;
  };
  std::shared_ptr<const Driver> driver_;
  struct File {
    std::string name;
    Module module;
  };
  std::vector<File> files_;
  std::map<std::string, Found> functions_;
};

}  // namespace kvik::cuda
