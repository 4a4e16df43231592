#pragma once

#include <memory>

#include "server/service/service.h"

// Endpoints for those who run the server.
namespace kvik::server {

void health(Service& service, const std::shared_ptr<Exchange>& exchange);  // ready: the server does not stop
void health_live(Service& service, const std::shared_ptr<Exchange>& exchange);
void metrics(Service& service, const std::shared_ptr<Exchange>& exchange);

}  // namespace kvik::server
