#include "backend/ort/ort_backend.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/graph/graph_backend.h"
#include "backend/ort/executor.h"
#include "kvik/error.h"

namespace kvik::backend {
namespace {

bool has_cuda(const ort::Library& library, const OrtOptions& options, const Log& log) {
  const std::vector<std::string> providers = library.providers();
  if (std::find(providers.begin(), providers.end(), "CUDAExecutionProvider") != providers.end()) return true;
  const std::string sentence = fmt::format("CUDA provider asked, not in this build of ONNX Runtime ({} has {})", library.path().string(),
                                           fmt::join(providers, ", "));
  if (!options.allow_cpu) throw Error(Code::kUnsupported, sentence);
  log.warning(sentence + "; running on CPU");
  return false;
}

}  // namespace

std::unique_ptr<Backend> make_ort_backend(analysis::Signature signature, const OrtOptions& options, const Log& log) {
  const std::shared_ptr<const ort::Library> library = ort::Library::open(options.search);
  ort::SessionSettings settings{options.n_threads, options.cuda && has_cuda(*library, options, log)};
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
    if (!settings.cuda || !options.allow_cpu) throw;
    log.warning(fmt::format("CUDA provider asked, but it does not start: {}; running on CPU", e.what()));
    settings.cuda = false;
    backend = open_all();
  }
  log.info(fmt::format("ONNX Runtime {} from {}, on {}", library->version(), library->path().string(), settings.cuda ? "cuda" : "cpu"));
  return backend;
}

}  // namespace kvik::backend
