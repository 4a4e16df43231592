#pragma once

#include <memory>

#include "server/service/service.h"

namespace kvik::server {

// "/", "/openapi.json" and "/web/NAME".
void web_file(Service& service, const std::shared_ptr<Exchange>& exchange);

}  // namespace kvik::server
