#include "server/gate.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "server/routes.h"

namespace kvik::server {
namespace {

// Without its port: "[::1]:80" and "localhost:80" become "[::1]" and "localhost".
std::string_view host_name(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool is_loopback_name(std::string_view name) {
  const bool is_number = name.find_first_not_of("0123456789.") == std::string_view::npos;  // "127.0.0.1.example" is a name of its own
  return equal_ignoring_case(name, "localhost") || name.ends_with(".localhost") || name == "[::1]" ||
         (is_number && name.starts_with("127."));
}

std::string_view media_type(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return type;
}

void check_body(const Route& route, const Request& request, const ServeOptions& options) {
  const std::string_view type = media_type(request.header("content-type"));
  if (route.body == Route::Body::kForm && !equal_ignoring_case(type, "multipart/form-data"))
    throw ApiError(415, "", "the content type of the body must be multipart/form-data");
  // Ollama's own clients and its documentation send JSON under any type.
  if (route.body != Route::Body::kJson) return;
  if (route.style == Style::kOpenAi && !type.empty() && !equal_ignoring_case(type, "application/json"))
    throw ApiError(415, "", "the content type of the body must be application/json");
  const std::string_view coding = request.header("content-encoding");
  if (!coding.empty() && !equal_ignoring_case(coding, "identity"))
    throw ApiError(415, "", "a body with a content encoding is not supported; send it as it is");
  const std::string_view length = request.header("content-length");
  uint64_t n_bytes = 0;
  std::from_chars(length.data(), length.data() + length.size(), n_bytes);
  if (n_bytes > options.max_body_bytes / 4)
    throw ApiError(413, "", fmt::format("the body has {} bytes; this server takes {}", n_bytes, options.max_body_bytes / 4));
}

bool is_header_list(std::string_view text) {
  return !text.empty() && text.size() <= 1024 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == ',' || c == ' ';
  });
}

// Behind what every answer to an allowed origin has. OpenAI's client in a browser sends a dozen headers of its own, so all may be sent.
Response preflight(const Request& request) {
  const std::string_view wanted = request.header("access-control-request-headers");
  return {.status = 204,
          .headers = {{"access-control-allow-methods", "GET, HEAD, POST, OPTIONS"},
                      {"access-control-allow-headers", is_header_list(wanted) ? std::string(wanted) : "authorization, content-type"},
                      {"access-control-max-age", "600"}}};
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

bool Gate::has_key(const Request& request) const {
  if (options_.api_key.empty()) return true;
  std::string_view given = request.header("authorization");
  constexpr std::string_view kScheme = "bearer ";
  if (given.size() > kScheme.size() && equal_ignoring_case(given.substr(0, kScheme.size()), kScheme)) {
    given.remove_prefix(kScheme.size());
  } else {
    given = request.header("x-api-key");
  }
  return equal_in_constant_time(given, options_.api_key);
}

// A page of another site whose name was made to lead here must not reach a server that trusts this machine.
bool Gate::is_own_host(std::string_view host) const {
  if (!is_loopback_ || host.empty()) return true;
  const std::string_view name = host_name(host);
  return is_loopback_name(name) || equal_ignoring_case(name, options_.host);
}

// A browser says which page asks. Programs do not, and are not meant.
bool Gate::allows_origin(const Request& request) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || options_.cors_origin == "*" || equal_ignoring_case(origin, options_.cors_origin)) return true;
  const size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && equal_ignoring_case(origin.substr(scheme + 3), request.header("host"));
}

std::optional<Response> Gate::refusal(const Request& request) const {
  Style style = request.path.starts_with("/api/") ? Style::kOllama : Style::kOpenAi;
  try {
    if (!is_own_host(request.header("host"))) throw ApiError(421, "", "this server answers only under the names of this machine");
    if (!allows_origin(request)) throw ApiError(403, "", "pages of this origin may not use the server; see --cors");
    if (request.method == "OPTIONS" && !options_.cors_origin.empty()) return preflight(request);
    const Route& route = find_route(request.method, request.path);
    if (!route.is_public && !has_key(request))
      throw ApiError(401, "invalid_api_key", "the API key is missing or wrong; send it as 'Authorization: Bearer KEY'");
    check_body(route, request, options_);
    return std::nullopt;
  } catch (const ApiError& e) {
    Response response{e.status(), error_body(style, e)};
    if (e.status() == 405) response.headers.emplace_back("allow", allowed_methods(request.path));
    if (e.status() == 401) response.headers.emplace_back("www-authenticate", "Bearer");
    return response;
  }
}

}  // namespace kvik::server
