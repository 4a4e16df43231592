#include "server/routes.h"

#include <algorithm>
#include <fmt/format.h>

#include "server/ollama/ollama.h"
#include "server/openai/openai.h"
#include "server/operations.h"
#include "server/status.h"
#include "server/web/page.h"

namespace kvik::server {
namespace {

bool matches(const Route& route, std::string_view path) {
  if (!route.path.ends_with("/*")) return route.path == path;
  const std::string_view before = route.path.substr(0, route.path.size() - 1);
  return path.size() > before.size() && path.starts_with(before);
}

Route post(std::string_view path, Style style, decltype(Route::answer) answer, Route::Body body = Route::Body::kJson) {
  return {.method = "POST", .path = path, .style = style, .body = body, .answer = std::move(answer)};
}
Route get(std::string_view path, Style style, decltype(Route::answer) answer) {
  return {.method = "GET", .path = path, .style = style, .is_quick = true, .answer = std::move(answer)};
}
Route open(std::string_view path, decltype(Route::answer) answer) {
  return {.method = "GET", .path = path, .is_public = true, .is_quick = true, .answer = std::move(answer)};
}

}  // namespace

const std::vector<Route>& routes() {
  using enum Style;
  static const std::vector<Route> kRoutes = {
      post("/v1/chat/completions", kOpenAi, openai::chat_completions),
      post("/v1/completions", kOpenAi, openai::completions),
      post("/v1/embeddings", kOpenAi, openai::embeddings),
      post("/v1/translations", kOpenAi, openai::translations),
      post("/v1/audio/transcriptions", kOpenAi, openai::transcriptions, Route::Body::kForm),
      get("/v1/models", kOpenAi, openai::models),
      get("/v1/models/*", kOpenAi, openai::one_model),
      post("/api/generate", kOllama, ollama::generate),
      post("/api/chat", kOllama, ollama::chat),
      post("/api/embed", kOllama, ollama::embed_texts),
      post("/api/embeddings", kOllama, ollama::embed_prompt),
      post("/api/pull", kOllama, ollama::pull),
      post("/api/show", kOllama, ollama::show),
      get("/api/tags", kOllama, ollama::tags),
      get("/api/ps", kOllama, ollama::ps),
      get("/api/version", kOllama, ollama::version),
      open("/health", health),
      open("/health/live", health_live),
      open("/health/ready", health),
      get("/v1/status", kOpenAi, status),
      get("/metrics", kOpenAi, metrics),
      open("/openapi.json", web_file),
      open("/", web_file),
      open("/web/*", web_file),
  };
  return kRoutes;
}

const Route& find_route(std::string_view method, std::string_view path) {
  bool is_known = false;
  for (const Route& route : routes()) {
    if (!matches(route, path)) continue;
    is_known = true;
    if (route.method == method || (method == "HEAD" && route.method == "GET")) return route;
  }
  if (is_known) throw ApiError(405, "", fmt::format("{} does not allow {}", path.substr(0, 100), method.substr(0, 20)));
  throw ApiError(404, "", fmt::format("there is no {}", path.substr(0, 100)));
}

std::string allowed_methods(std::string_view path) {
  std::string methods;
  for (const Route& route : routes()) {
    if (matches(route, path))
      methods += fmt::format("{}{}{}", methods.empty() ? "" : ", ", route.method, route.method == "GET" ? ", HEAD" : "");
  }
  return methods;
}

}  // namespace kvik::server
