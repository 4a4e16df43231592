#include "backend/ort/library.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <fmt/format.h>

#include "backend/ort/memory.h"
#include "kvik/error.h"

namespace kvik::backend::ort {
namespace {

namespace fs = std::filesystem;

// prefix/lib/python3.N/site-packages/onnxruntime/capi/libonnxruntime.so.1.N.M, newest Python first.
std::vector<fs::path> in_python(const fs::path& prefix) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::directory_entry& python : fs::directory_iterator(prefix / "lib", ignored)) {
    if (!python.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      for (const fs::directory_entry& file : fs::directory_iterator(python.path() / packages / "onnxruntime" / "capi", ignored)) {
        if (file.path().filename().string().starts_with("libonnxruntime.so")) found.push_back(file.path());
      }
    }
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

std::vector<fs::path> candidates_of(const LibrarySearch& search) {
  if (!search.library.empty()) return {search.library};
  std::vector<fs::path> candidates;
  for (const fs::path& prefix : search.python_prefixes) {
    const std::vector<fs::path> found = in_python(prefix);
    candidates.insert(candidates.end(), found.begin(), found.end());
  }
  candidates.insert(candidates.end(), {"libonnxruntime.so.1", "libonnxruntime.so"});  // those of the system
  return candidates;
}

[[noreturn]] void fail(const fs::path& path, const std::string& why) { throw Error(Code::kIo, fmt::format("{}: {}", path.string(), why)); }

}  // namespace

fs::path find_library(const LibrarySearch& search) {
  std::error_code ignored;
  for (const fs::path& candidate : candidates_of(search)) {
    if (fs::exists(candidate, ignored)) return candidate;
  }
  return {};
}

Library::Library(Api api, std::string version, fs::path path) : api_(api), version_(std::move(version)), path_(std::move(path)) {
  // Failures become Error; the runtime prints nothing.
  check(api_.create_env(LoggingLevel::kFatal, "kvik", &env_), "starting ONNX Runtime");
  check(api_.disable_telemetry(env_), "starting ONNX Runtime");
  has_huge_pages_ = offer_huge_pages(api_, env_);
}

std::shared_ptr<const Library> Library::open(const LibrarySearch& search) {
  // The runtime reads this while it loads.
  setenv("ORT_DISABLE_TELEMETRY", "1", 1);
  void* handle = nullptr;
  fs::path opened;
  std::string reason;
  for (const fs::path& candidate : candidates_of(search)) {
    handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    opened = candidate;
    if (handle != nullptr) break;
    if (const char* said = dlerror()) reason = said;
  }
  if (handle == nullptr && !search.library.empty())
    fail(search.library, fmt::format("ONNX Runtime's library cannot be opened ({}); a library for this machine is needed", reason));
  if (handle == nullptr) {
    throw Error(
        Code::kIo,
        "ONNX Runtime's library was not found; get it with 'pip install onnxruntime', or name it with --ort-lib FILE or KVIK_ORT_LIB");
  }
  const auto get_base = reinterpret_cast<const ApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
  if (get_base == nullptr) fail(opened, "this library is not ONNX Runtime's: it has no OrtGetApiBase");
  const ApiBase* base = get_base();
  const std::string version = base->get_version_string();
  const void* const* table = base->get_api(kApiVersion);
  if (table == nullptr) fail(opened, fmt::format("this is ONNX Runtime {}, which is too old; 1.16 or newer is needed", version));
  return std::shared_ptr<const Library>(new Library(Api(table), version, opened));
}

std::vector<std::string> Library::providers() const {
  char** names = nullptr;
  int n_names = 0;
  check(api_.available_providers(&names, &n_names), "asking for execution providers");
  std::vector<std::string> result(names, names + n_names);
  check(api_.release_available_providers(names, n_names), "asking for execution providers");
  return result;
}

void Library::check(Status* status, const std::string& doing) const {
  if (status == nullptr) return;
  const std::string message = api_.get_error_message(status);
  api_.release_status(status);
  throw Error(Code::kBadModel, fmt::format("{}: ONNX Runtime {}: {}", doing, version_, message));
}

}  // namespace kvik::backend::ort
