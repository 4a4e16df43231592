#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "server/service/service.h"

namespace kvik::server {

// Computes vectors; `done` gets them as run_task() does, after their tokens were counted. Throws as Engine::try_embed() does, and
// ApiError(400) if the model gives no vectors.
void embed(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model, const Texts& texts,
           const EmbedOptions& options, std::function<void(std::vector<Embedding>)> done);

}  // namespace kvik::server
