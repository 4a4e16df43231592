#include "backend/ort/ort_backend.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/graph/graph_backend.h"
#include "backend/ort/executor.h"
#include "kvik/error.h"

namespace kvik::backend {
namespace {

bool cuda_is_there(const ort::Library& library, const Log& log) {
  const std::vector<std::string> providers = library.providers();
  if (std::find(providers.begin(), providers.end(), "CUDAExecutionProvider") != providers.end()) return true;
  log.warning(fmt::format("CUDA provider asked, not in this build of ONNX Runtime ({} has {}); running on CPU", library.path().string(),
                          fmt::join(providers, ", ")));
  return false;
}

}  // namespace

std::unique_ptr<Backend> make_ort_backend(analysis::Signature signature, const OrtOptions& options, const Log& log) {
  const std::shared_ptr<const ort::Library> library = ort::Library::open(options.search);
  ort::SessionSettings settings{options.n_threads, options.cuda && cuda_is_there(*library, log)};
  const auto open_all = [&] {
    Traits traits;
    traits.name = "ort";
    traits.switch_after = options.switch_after;
    traits.device = settings.cuda ? "cuda" : "cpu";
    const auto open = [&](const analysis::File& file) { return ort::open_executor(library, file, settings); };
    return std::make_unique<GraphBackend>(signature, traits, open);
  };
  std::unique_ptr<Backend> backend;
  try {
    backend = open_all();
  } catch (const Error& e) {
    if (!settings.cuda) throw;
    log.warning(fmt::format("CUDA provider asked, but it does not start: {}; running on CPU", e.what()));
    settings.cuda = false;
    backend = open_all();
  }
  log.info(fmt::format("ONNX Runtime {} from {}, on {}", library->version(), library->path().string(), settings.cuda ? "cuda" : "cpu"));
  return backend;
}

}  // namespace kvik::backend
