#include "api/load.h"

#include <fmt/format.h>
#include <string>

#include "analysis/fit.h"
#include "analysis/inventory.h"
#include "backend/native/specialize/length_switch.h"
#include "backend/ort/executor.h"
#include "backend/ort/ort_backend.h"
#include "backend/reference/reference_backend.h"
#include "base/memory_info.h"
#include "kvik/error.h"
#include "kvik/profile.h"

namespace kvik::api {
namespace {

size_t weights_bytes_of(const analysis::File& file) {
  return static_cast<size_t>(analysis::take_inventory(*file.model).total_weight_bytes());
}

void warn_about_native_options(const LoadOptions& options, const Log& log) {
  if (options.weights == Weights::kAuto && options.kv == KvStorage::kAuto && options.isa == "auto") return;
  log.warning("weights, kv and isa are options of the native backend; this one uses what the file has");
}

static_assert(static_cast<int>(Weights::kQ4) == static_cast<int>(native::WeightChoice::kQ4));
static_assert(static_cast<int>(KvStorage::kQ8) == static_cast<int>(cpu::KvFormat::kQ8) + 1);

std::unique_ptr<backend::Backend> open_ort(const analysis::Signature& signature, const LoadOptions& options, const Environment& environment,
                                           const Log& log) {
  check_memory(signature);
  backend::OrtOptions ort;
  ort.search = {options.ort_library.empty() ? environment.ort_library : options.ort_library, environment.python_prefixes};
  ort.n_threads = options.threads;
  ort.cuda = options.device == Device::kCuda;
  ort.allow_cpu = options.backend == BackendChoice::kOrt;  // otherwise the native backend is faster there
  ort.switch_after = native::length_switch_of(signature);
  std::unique_ptr<backend::Backend> backend = backend::make_ort_backend(signature, ort, log);
  warn_about_native_options(options, log);
  return backend;
}

std::unique_ptr<backend::Backend> open_reference(const analysis::Signature& signature, const LoadOptions& options, const Log& log) {
  check_memory(signature);
  warn_about_native_options(options, log);
  return backend::make_reference_backend(signature, native::length_switch_of(signature));
}

// A stage that is not native: ONNX Runtime if it is installed, else the reference evaluator.
std::unique_ptr<backend::Executor> open_other(const analysis::File& file, const backend::ort::LibrarySearch& search, int n_threads,
                                              const Log& log) {
  try {
    return backend::ort::open_executor(backend::ort::Library::open(search), file, {n_threads, false});
  } catch (const Error& e) {
    log.warning(fmt::format("not run by ONNX Runtime: {}; using the reference evaluator, which is slow", e.what()));
  }
  return backend::make_reference_executor(file);
}

std::unique_ptr<backend::Backend> open_native(const analysis::Signature& signature, const LoadOptions& options,
                                              const Environment& environment, const Log& log) {
  if (options.device == Device::kCuda)
    throw Error(Code::kUnsupported, "the native backend runs on the CPU, and another device was requested");
  backend::NativeOptions native = native_options(options);
  const backend::ort::LibrarySearch search{options.ort_library.empty() ? environment.ort_library : options.ort_library,
                                           environment.python_prefixes};
  native.open_other = [=](const analysis::File& file) { return open_other(file, search, options.threads, log); };
  return backend::make_native_backend(signature, native, log);
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
  const size_t available = available_memory_bytes();
  if (available == 0 || needed <= available) return;
  throw Error(Code::kTooLarge,
              fmt::format("{}: its weights take {:.1f} GB, and {:.1f} GB of memory is free; use a smaller or quantized export",
                          signature.folder.string(), static_cast<double>(needed) / 1e9, static_cast<double>(available) / 1e9));
}

backend::NativeOptions native_options(const LoadOptions& options) {
  backend::NativeOptions native;
  native.weights = static_cast<native::WeightChoice>(options.weights);
  if (options.kv != KvStorage::kAuto) native.kv = static_cast<cpu::KvFormat>(static_cast<int>(options.kv) - 1);
  native.isa = options.isa;
  native.n_threads = options.threads;
  native.no_fuse = options.no_fuse;
  native.context = options.context;
  native.kv_bytes = options.kv_bytes;
  native.compile_cache = options.compile_cache;
  if (options.profile != nullptr) native.recorder = options.profile->recorder();
  return native;
}

namespace {

void check_parts(const analysis::Signature& signature) {
  for (const std::string& problem : analysis::generation_problems(signature))
    throw Error(Code::kBadModel, fmt::format("{}: {}", signature.folder.string(), problem));
}

}  // namespace

std::shared_ptr<backend::Backend> open_backend(const analysis::Signature& signature, const LoadOptions& options,
                                               const Environment& environment, const Log& log) {
  check_parts(signature);
  switch (options.backend) {
    case BackendChoice::kNative: return open_native(signature, options, environment, log);
    case BackendChoice::kReference: return open_reference(signature, options, log);
    case BackendChoice::kOrt: return open_ort(signature, options, environment, log);
    case BackendChoice::kAuto: break;
  }
  if (options.device == Device::kCuda) {
    try {
      return open_ort(signature, options, environment, log);
    } catch (const Error& e) { log.warning(fmt::format("not run by ONNX Runtime on CUDA: {}; falling back to the CPU", e.what())); }
    LoadOptions on_cpu = options;
    on_cpu.device = Device::kCpu;
    return open_backend(signature, on_cpu, environment, log);
  }
  try {
    return open_native(signature, options, environment, log);
  } catch (const Error& e) {
    if (e.code() != Code::kUnsupported) throw;
    log.warning(fmt::format("not run natively: {}", e.what()));
  }
  try {
    return open_ort(signature, options, environment, log);
  } catch (const Error& e) {
    log.warning(fmt::format("not run by ONNX Runtime: {}; using the reference evaluator, which is slow", e.what()));
  }
  return open_reference(signature, options, log);
}

}  // namespace kvik::api
