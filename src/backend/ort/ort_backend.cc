#include "backend/ort/ort_backend.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/graph/graph_backend.h"
#include "backend/graph/graph_embedder.h"
#include "backend/ort/executor.h"
#include "kvik/error.h"

namespace kvik::backend {
namespace {

using LibraryPtr = std::shared_ptr<const ort::Library>;

std::string device_name(const ort::SessionSettings& settings) { return settings.cuda ? "cuda" : "cpu"; }

bool has_cuda(const ort::Library& library, const OrtOptions& options, const Log& log) {
  const std::vector<std::string> providers = library.providers();
  if (std::find(providers.begin(), providers.end(), "CUDAExecutionProvider") != providers.end()) return true;
  const std::string sentence = fmt::format("the CUDA provider was requested, but this build of ONNX Runtime does not have it ({} has {})",
                                           library.path().string(), fmt::join(providers, ", "));
  if (!options.allow_cpu) throw Error(Code::kUnsupported, sentence);
  log.warning(sentence + "; running on the CPU");
  return false;
}

// Opens on the requested device, or on the CPU if that is allowed.
template <class Open>  // (library, settings) -> what was opened
auto open_on_device(const OrtOptions& options, const Log& log, const Open& open) {
  const std::shared_ptr<const ort::Library> library = ort::Library::open(options.search);
  ort::SessionSettings settings{options.n_threads, options.cuda && has_cuda(*library, options, log)};
  const auto opened = [&](auto result) {
    log.info(fmt::format("ONNX Runtime {} from {}, on {}", library->version(), library->path().string(), device_name(settings)));
    return result;
  };
  try {
    return opened(open(library, settings));
  } catch (const Error& e) {
    if (!settings.cuda || !options.allow_cpu) throw;
    log.warning(fmt::format("the CUDA provider was requested, but it cannot be initialized: {}; running on the CPU", e.what()));
    settings.cuda = false;
  }
  return opened(open(library, settings));
}

}  // namespace

std::unique_ptr<Backend> make_ort_backend(analysis::Signature signature, const OrtOptions& options, const Log& log) {
  return open_on_device(options, log, [&](const LibraryPtr& library, const ort::SessionSettings& settings) {
    Traits traits;
    traits.name = "ort";
    traits.switch_after = options.switch_after;
    traits.device = device_name(settings);
    const auto open = [&](const analysis::File& file) { return ort::open_executor(library, file, settings); };
    return std::make_unique<GraphBackend>(signature, traits, open);
  });
}

std::unique_ptr<Embedder> make_ort_embedder(const analysis::Signature& signature, bool pooled, const OrtOptions& options, const Log& log) {
  return open_on_device(options, log, [&](const LibraryPtr& library, const ort::SessionSettings& settings) {
    const auto open = [&](const analysis::File& file) { return ort::open_executor(library, file, settings); };
    return make_graph_embedder(signature, {"ort", device_name(settings), pooled}, open);
  });
}

}  // namespace kvik::backend
