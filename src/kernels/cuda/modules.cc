#include "kernels/cuda/modules.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <string_view>

#include "kvik/error.h"

#ifndef KVIK_CUDA_VERSION
#define KVIK_CUDA_VERSION "none"
#endif

namespace kvik::cuda {
namespace {

namespace fs = std::filesystem;
constexpr const char* kName = "libkvik-cuda.so";

// Of this code: a program, or a shared library.
fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&open_kernels), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  const fs::path file = fs::path(info.dli_fname).has_parent_path() ? fs::path(info.dli_fname) : fs::read_symlink("/proc/self/exe", ignored);
  return file.parent_path();
}

void* open_first(const KernelSearch& search, fs::path& opened) {
  std::vector<fs::path> candidates;
  if (!search.library.empty()) {
    candidates.push_back(search.library);
  } else {
    for (const fs::path& folder : search.folders) candidates.push_back(folder / kName);
    for (const char* below : {"", "../lib", "../lib/kvik", "kvik", "../kvik"}) candidates.push_back(own_folder() / below / kName);
    candidates.emplace_back(kName);
  }
  std::error_code ignored;
  for (const fs::path& candidate : candidates) {
    opened = candidate;
    if (candidate.has_parent_path() && search.library.empty() && !fs::exists(candidate, ignored)) continue;
    if (void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return nullptr;
}

}  // namespace

const KernelTable& open_kernels(const KernelSearch& search) {
  fs::path opened;
  void* handle = open_first(search, opened);
  if (handle == nullptr && !search.library.empty()) {
    const char* reason = dlerror();
    throw Error(Code::kIo, fmt::format("{}: cannot be opened as Kvik's kernels for CUDA ({})", search.library.string(),
                                       reason != nullptr ? reason : "no reason given"));
  }
  if (handle == nullptr) {
    throw Error(Code::kIo,
                fmt::format("{} was not found beside the program; build Kvik with nvcc, or name the file with --cuda-lib FILE or "
                            "KVIK_CUDA_LIB",
                            kName));
  }
  const auto* table = static_cast<const KernelTable*>(dlsym(handle, "kvik_cuda_kernels"));
  if (table == nullptr) throw Error(Code::kUnsupported, fmt::format("{}: has no kernels of Kvik", opened.string()));
  if (std::string_view(table->version) != KVIK_CUDA_VERSION) {
    throw Error(Code::kUnsupported, fmt::format("{}: has kernels of version {}, and this program needs {}; build both together",
                                                opened.string(), table->version, KVIK_CUDA_VERSION));
  }
  return *table;
}

Modules::Modules(std::shared_ptr<const Driver> driver, const KernelTable& table) : driver_(std::move(driver)) {
  for (const KernelFile& file : std::span(table.files, table.n_files)) {
    Module module = nullptr;
    const Result result = driver_->module_load(&module, file.bytes);
    if (result != kSuccess) {
      throw Error(Code::kUnsupported,
                  fmt::format("the GPU does not load the kernels '{}' made for {}: {}", file.name, table.arch, describe(*driver_, result)));
    }
    files_.push_back({file.name, module});
  }
}

Modules::~Modules() {
  for (const File& file : files_) driver_->module_unload(file.module);
}

Function Modules::get(const std::string& name, int shared_bytes) {
  Found& found = functions_[name];
  for (size_t i = 0; found.function == nullptr && i < files_.size(); ++i)
    if (name.starts_with(files_[i].name)) driver_->module_function(&found.function, files_[i].module, name.c_str());
  if (found.function == nullptr) throw Error(Code::kInternal, fmt::format("no kernel is called '{}'", name));
  // A multiprocessor that changes how it divides its memory waits until it is idle: all kernels want the most shared memory.
  constexpr int kAllShared = 100;
  if (found.shared_bytes == 0) driver_->function_set(found.function, kSharedCarveout, kAllShared);
  constexpr int kWithoutAsking = 40 << 10;  // 48 KB with what kernels have besides
  if (shared_bytes > std::max(found.shared_bytes, kWithoutAsking)) {
    const Result result = driver_->function_set(found.function, kDynamicSharedBytes, shared_bytes);
    if (result != kSuccess)
      throw Error(Code::kInternal,
                  fmt::format("kernel '{}' cannot have {} bytes of shared memory: {}", name, shared_bytes, describe(*driver_, result)));
    found.shared_bytes = shared_bytes;
  }
  return found.function;
}

}  // namespace kvik::cuda
