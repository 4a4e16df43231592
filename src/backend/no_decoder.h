#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/embedder.h"

namespace kvik::backend {

// In the place of the decoder of a model that only embeds: has the traits of `embedder` and refuses to run with one sentence.
std::unique_ptr<Backend> make_no_decoder(const EmbedderTraits& embedder);

}  // namespace kvik::backend
