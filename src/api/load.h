#pragma once

#include "analysis/signature.h"
#include "api/environment.h"
#include "backend/backend.h"
#include "backend/embedder.h"
#include "backend/native/native_backend.h"
#include "base/log.h"
#include "kvik/kvik.h"

namespace kvik::api {

// Bytes of all weights in the files that generation opens.
size_t weights_bytes_of(const analysis::Signature& signature);

// Throws Error(kTooLarge) with both figures when the weights would not fit into the memory that is free.
void check_memory(const analysis::Signature& signature);

// The options of the native backend.
backend::NativeOptions native_options(const LoadOptions& options);

// The requested backend, or the best one that can run the model; the log says why a backend was skipped.
std::shared_ptr<backend::Backend> open_backend(const analysis::Signature& signature, const LoadOptions& options,
                                               const Environment& environment, const Log& log);

// The same for hidden states, or with `pooled` for the vectors that the graph itself gives (which no compiled plan does).
std::shared_ptr<backend::Embedder> open_embedder(const analysis::Signature& signature, bool pooled, const LoadOptions& options,
                                                 const Environment& environment, const Log& log);

}  // namespace kvik::api
