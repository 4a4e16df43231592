#pragma once

#include <memory>

#include "backend/embedder.h"
#include "backend/native/native_backend.h"

namespace kvik::backend {

// Hidden states of Signature::embedder(). Throws Error(kUnsupported) naming the node if it is not a program over rows.
std::unique_ptr<Embedder> make_native_embedder(analysis::Signature signature, const NativeOptions& options, const Log& log);

}  // namespace kvik::backend
