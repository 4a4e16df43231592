#include "api/load.h"

#include <fmt/format.h>
#include <string>

#include "analysis/fit.h"
#include "analysis/inventory.h"
#include "api/open_device.h"
#include "backend/graph/graph_embedder.h"
#include "backend/native/native_embedder.h"
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
  log.warning("weights, kv and isa are options of the native backend and are ignored; this backend uses the formats of the file");
}

static_assert(static_cast<int>(Weights::kQ4) == static_cast<int>(native::WeightChoice::kQ4));
static_assert(static_cast<int>(KvStorage::kQ8) == static_cast<int>(cpu::KvFormat::kQ8) + 1);

backend::ort::LibrarySearch library_search(const LoadOptions& options, const Environment& environment) {
  return {options.ort_library.empty() ? environment.ort_library : options.ort_library, environment.python_prefixes};
}

backend::OrtOptions ort_options(const LoadOptions& options, const Environment& environment) {
  return {.search = library_search(options, environment),
          .n_threads = options.threads,
          .cuda = options.device == Device::kCuda,
          .allow_cpu = options.backend == BackendChoice::kOrt};  // otherwise the native backend is faster there
}

std::unique_ptr<backend::Backend> open_ort(const analysis::Signature& signature, const LoadOptions& options, const Environment& environment,
                                           const Log& log) {
  check_memory(signature);
  backend::OrtOptions ort = ort_options(options, environment);
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

backend::NativeOptions native_options(const LoadOptions& options, const OpenedDevice& opened) {
  backend::NativeOptions native = api::native_options(options);
  native.device = opened.device;
  native.device_name = opened.name;
  return native;
}

std::unique_ptr<backend::Backend> open_native(const analysis::Signature& signature, backend::NativeOptions native,
                                              const LoadOptions& options, const Environment& environment, const Log& log) {
  const backend::ort::LibrarySearch search = library_search(options, environment);
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
  if (first == nullptr && signature.embedder() != nullptr) bytes += weights_bytes_of(*signature.embedder());
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

namespace {

// One way to open something per backend.
template <class T>
struct Openers {
  std::function<std::unique_ptr<T>(const LoadOptions&)> native, ort, reference;
  std::string no_gpu;  // why the native backend has none, if one was requested
};

OpenedDevice open_device_for_native(const LoadOptions& options, const Environment& environment) {
  const bool native = options.backend == BackendChoice::kAuto || options.backend == BackendChoice::kNative;
  return native ? open_device(options, environment) : OpenedDevice{};
}

void log_cpu(const LoadOptions& options, const std::string& why, const Log& log) {
  if (options.device == Device::kCpu || why.empty()) return;
  const std::string text = fmt::format("not run on CUDA: {}; falling back to the CPU", why);
  if (options.device == Device::kAuto)
    log.info(text);
  else
    log.warning(text);
}

template <class T>
std::shared_ptr<T> open_best(const LoadOptions& options, const Openers<T>& open, const Log& log) {
  switch (options.backend) {
    case BackendChoice::kNative: log_cpu(options, open.no_gpu, log); return open.native(options);
    case BackendChoice::kReference: return open.reference(options);
    case BackendChoice::kOrt: return open.ort(options);
    case BackendChoice::kAuto: break;
  }
  if (options.device == Device::kCuda && !open.no_gpu.empty()) {
    try {
      return open.ort(options);  // has kernels for more GPUs
    } catch (const Error& e) { log_cpu(options, fmt::format("{}; not run by ONNX Runtime on CUDA: {}", open.no_gpu, e.what()), log); }
    LoadOptions on_cpu = options;
    on_cpu.device = Device::kCpu;
    return open_best(on_cpu, open, log);
  }
  log_cpu(options, open.no_gpu, log);
  try {
    return open.native(options);
  } catch (const Error& e) {
    if (e.code() != Code::kUnsupported) throw;
    log.warning(fmt::format("not run natively: {}", e.what()));
  }
  try {
    return open.ort(options);
  } catch (const Error& e) {
    log.warning(fmt::format("not run by ONNX Runtime: {}; using the reference evaluator, which is slow", e.what()));
  }
  return open.reference(options);
}

}  // namespace

std::shared_ptr<backend::Backend> open_backend(const analysis::Signature& signature, const LoadOptions& options,
                                               const Environment& environment, const Log& log) {
  check_parts(signature);
  const OpenedDevice opened = open_device_for_native(options, environment);
  return open_best<backend::Backend>(
      options,
      {.native = [&](const LoadOptions& how) { return open_native(signature, native_options(how, opened), how, environment, log); },
       .ort = [&](const LoadOptions& how) { return open_ort(signature, how, environment, log); },
       .reference = [&](const LoadOptions& how) { return open_reference(signature, how, log); },
       .no_gpu = opened.missing},
      log);
}

std::unique_ptr<backend::Backend> open_with_float_rows(const analysis::Signature& signature, const LoadOptions& options,
                                                       const Environment& environment, const Log& log) {
  backend::NativeOptions native = native_options(options);
  native.quantizes_rows = false;
  return open_native(signature, std::move(native), options, environment, log);
}

std::shared_ptr<backend::Embedder> open_embedder(const analysis::Signature& signature, bool pooled, const LoadOptions& options,
                                                 const Environment& environment, const Log& log) {
  const OpenedDevice opened = open_device_for_native(options, environment);
  return open_best<backend::Embedder>(
      options,
      {.native =
           [&](const LoadOptions& how) {
             if (pooled) throw Error(Code::kUnsupported, "the vector that the graph pools is not a row-wise result");
             return backend::make_native_embedder(signature, native_options(how, opened), log);
           },
       .ort =
           [&](const LoadOptions& how) {
             warn_about_native_options(how, log);
             return backend::make_ort_embedder(signature, pooled, ort_options(how, environment), log);
           },
       .reference =
           [&](const LoadOptions& how) {
             warn_about_native_options(how, log);
             return backend::make_graph_embedder(signature, {"reference", "cpu", pooled}, backend::make_reference_executor);
           },
       .no_gpu = opened.missing},
      log);
}

}  // namespace kvik::api
