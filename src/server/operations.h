#pragma once

#include <memory>

#include "server/service/service.h"

// Endpoints for operators.
namespace kvik::server {

void health(Service& service, const std::shared_ptr<Exchange>& exchange);  // ready: the server is not stopping
void health_live(Service& service, const std::shared_ptr<Exchange>& exchange);
void metrics(Service& service, const std::shared_ptr<Exchange>& exchange);

}  // namespace kvik::server
