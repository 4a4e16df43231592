#pragma once

#include <memory>

#include "server/service/service.h"

namespace kvik::server {

// /v1/status, for the web page: the machine, and what each model can do.
void status(Service& service, const std::shared_ptr<Exchange>& exchange);

}  // namespace kvik::server
