#pragma once

#include "analysis/signature.h"
#include "api/environment.h"
#include "backend/backend.h"
#include "backend/embedder.h"
#include "backend/native/native_backend.h"
#include "base/log.h"
#include "kvik/kvik.h"

namespace kvik::api {

// Bytes of all weights in the files that are needed for generation.
size_t weights_bytes_of(const analysis::Signature& signature);

// Throws Error(kTooLarge) with both sizes if the weights do not fit into free memory.
void check_memory(const analysis::Signature& signature);

// The options of the native backend.
backend::NativeOptions native_options(const LoadOptions& options);

// The native backend on the CPU with these weights, but without quantizing the rows that they multiply.
std::unique_ptr<backend::Backend> open_with_float_rows(const analysis::Signature& signature, const LoadOptions& options,
                                                       const Environment& environment, const Log& log);

// The requested backend, or the first that can run the model; logs why a backend was skipped.
std::shared_ptr<backend::Backend> open_backend(const analysis::Signature& signature, const LoadOptions& options,
                                               const Environment& environment, const Log& log);

// The same for hidden states, or, if `pooled`, for the vectors that the graph itself computes (not supported by the native backend).
std::shared_ptr<backend::Embedder> open_embedder(const analysis::Signature& signature, bool pooled, const LoadOptions& options,
                                                 const Environment& environment, const Log& log);

}  // namespace kvik::api
