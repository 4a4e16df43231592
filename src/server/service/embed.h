#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "server/service/service.h"

namespace kvik::server {

using EmbedInput = std::variant<std::vector<std::string>, std::vector<std::vector<TokenId>>>;

// Computes vectors, cancelled if the client goes. On a thread of Service::compute. Throws as Model::embed() does, and ApiError(504) after
// the time for a request.
std::vector<Embedding> embed(Service& service, const std::shared_ptr<Exchange>& exchange, const LoadedModel& model, const EmbedInput& input,
                             EmbedOptions options);

}  // namespace kvik::server
