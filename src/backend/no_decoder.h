#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/embedder.h"

namespace kvik::backend {

// Stands in for the decoder of a model that only embeds: has the traits of `embedder` and throws an Error when run.
std::unique_ptr<Backend> make_no_decoder(const EmbedderTraits& embedder);

}  // namespace kvik::backend
