#pragma once

#include "analysis/signature.h"
#include "backend/backend.h"
#include "backend/embedder.h"
#include "backend/ort/library.h"
#include "base/log.h"

namespace kvik::backend {

struct OrtOptions {
  ort::LibrarySearch search;
  int n_threads = 0;
  bool cuda = false;
  bool allow_cpu = true;     // with `cuda`: run on the CPU, with a warning, if CUDA is not available; otherwise an Error
  int64_t switch_after = 0;  // see Traits
};

// Runs any graph with ONNX Runtime, loaded at run time. Logs the library, version and provider, and why the requested provider is not
// used.
std::unique_ptr<Backend> make_ort_backend(analysis::Signature signature, const OrtOptions& options, const Log& log);

// The same for hidden states, or with `pooled` for the graph's own vectors.
std::unique_ptr<Embedder> make_ort_embedder(const analysis::Signature& signature, bool pooled, const OrtOptions& options, const Log& log);

}  // namespace kvik::backend
