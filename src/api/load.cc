#include "api/load.h"

#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <string>

#include "analysis/inventory.h"
#include "backend/ort/ort_backend.h"
#include "backend/reference/reference_backend.h"
#include "kvik/error.h"

namespace kvik::api {
namespace {

size_t weights_bytes_of(const analysis::File& file) {
  return static_cast<size_t>(analysis::take_inventory(*file.model).total_weight_bytes());
}

// What the system could give without swapping; 0 where it does not say.
size_t available_in_system() {
  std::ifstream file("/proc/meminfo");
  for (std::string key, unit; file >> key;) {
    size_t kilobytes = 0;
    file >> kilobytes >> unit;
    if (key == "MemAvailable:") return kilobytes * 1024;
  }
  return 0;
}

// What the container we may be in still allows; nothing where it sets no limit.
std::optional<size_t> available_in_container() {
  size_t limit = 0, used = 0;
  std::ifstream limit_file("/sys/fs/cgroup/memory.max"), used_file("/sys/fs/cgroup/memory.current");
  if (!(limit_file >> limit) || !(used_file >> used)) return std::nullopt;  // "max", or not there
  return limit > used ? limit - used : 0;
}

size_t available_bytes() {
  const size_t in_system = available_in_system();
  return std::min(in_system, available_in_container().value_or(in_system));
}

void say_what_only_native_does(const LoadOptions& options, const Log& log) {
  if (options.weights == Weights::kAuto && options.kv == KvStorage::kF32 && options.isa == "auto") return;
  log.warning("weights, kv and isa are for the native backend; this one keeps what the file has");
}

std::unique_ptr<backend::Backend> open_ort(const analysis::Signature& signature, const LoadOptions& options, const Environment& environment,
                                           const Log& log) {
  backend::OrtOptions ort;
  ort.search = {options.ort_library.empty() ? environment.ort_library : options.ort_library, environment.python_prefixes};
  ort.n_threads = options.threads;
  ort.cuda = options.device == Device::kCuda;
  return backend::make_ort_backend(signature, ort, log);
}

}  // namespace

size_t weights_bytes_of(const analysis::Signature& signature) {
  size_t bytes = 0;
  const analysis::File* first = signature.first_step();
  const analysis::File* later = signature.later_step();
  if (first != nullptr) bytes += weights_bytes_of(*first);
  if (later != nullptr && later != first) bytes += weights_bytes_of(*later);
  if (const analysis::File* encoder = signature.encoder()) bytes += weights_bytes_of(*encoder);
  return bytes;
}

void check_memory(const analysis::Signature& signature) {
  const size_t needed = weights_bytes_of(signature);
  const size_t available = available_bytes();
  if (available == 0 || needed <= available) return;
  throw Error(Code::kTooLarge,
              fmt::format("{}: its weights take {:.1f} GB, and {:.1f} GB of memory are free; take a smaller or quantised export",
                          signature.folder.string(), static_cast<double>(needed) / 1e9, static_cast<double>(available) / 1e9));
}

std::shared_ptr<backend::Backend> open_backend(const analysis::Signature& signature, const LoadOptions& options,
                                               const Environment& environment, const Log& log) {
  if (options.backend != BackendChoice::kNative) say_what_only_native_does(options, log);
  switch (options.backend) {
    case BackendChoice::kNative:
      throw Error(Code::kUnsupported, "the native backend is not in this version; use --backend ort or reference");
    case BackendChoice::kReference: return backend::make_reference_backend(signature);
    case BackendChoice::kOrt: return open_ort(signature, options, environment, log);
    case BackendChoice::kAuto: break;
  }
  try {
    return open_ort(signature, options, environment, log);
  } catch (const Error& e) {
    log.warning(fmt::format("not run by ONNX Runtime: {}; taking the reference evaluator, which is slow", e.what()));
  }
  return backend::make_reference_backend(signature);
}

}  // namespace kvik::api
