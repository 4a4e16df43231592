#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "server/service/service.h"

namespace kvik::server {

// One endpoint.
struct Route {
  std::string_view method;
  std::string_view path;  // "/v1/models/*": any path with this prefix
  Style style = Style::kOpenAi;
  enum class Body { kNone, kJson, kForm } body = Body::kNone;
  bool is_public = false;  // needs no key
  bool is_quick = false;   // answered on the thread of the server
  std::function<void(Service&, const std::shared_ptr<Exchange>&)> answer;
};
const std::vector<Route>& routes();

// The route of a request. Throws ApiError(404) or (405); HEAD is answered as GET without a body.
const Route& find_route(std::string_view method, std::string_view path);
std::string allowed_methods(std::string_view path);

}  // namespace kvik::server
