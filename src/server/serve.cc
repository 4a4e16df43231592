#include "kvik/serve.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include "kvik/error.h"
#include "server/gate.h"
#include "server/http/http_server.h"
#include "server/routes.h"

namespace kvik {
namespace {

using namespace server;

// Each connection is a descriptor, and the usual limit of 1,024 is lower than what the system allows.
void allow_descriptors(int n_connections) {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min<rlim_t>(static_cast<rlim_t>(n_connections) + 256, limit.rlim_max);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

HttpLimits limits_of(const ServeOptions& options) {
  HttpLimits limits;
  limits.max_body_bytes = options.max_body_bytes;
  limits.max_connections = options.max_connections;
  limits.header_timeout = options.header_timeout;
  limits.body_timeout = options.body_timeout;
  return limits;
}

}  // namespace

struct Server::State {
  State(const std::vector<std::string>& models, const ServeOptions& options) : service(models, options) {}

  std::optional<Response> refusal(const Request& request) {
    std::optional<Response> response = gate->refusal(request);
    if (response) log_refusal(request, *response, service.options, service.metrics);
    return response;
  }

  void handle(Request request, std::shared_ptr<Responder> responder) {
    const auto exchange = std::make_shared<Exchange>(std::move(request), std::move(responder), service.options, service.metrics);
    answer_errors(*exchange, [&] {
      const Route& route = find_route(exchange->request.method, exchange->request.path);
      exchange->endpoint = route.path;
      exchange->style = route.style;
      if (service.stopping && !route.is_public) throw ApiError(503, "", "the server stops");
      if (route.body == Route::Body::kJson && exchange->request.body.size() > service.options.max_body_bytes / 4)
        throw ApiError(413, "", fmt::format("the body has more than {} bytes", service.options.max_body_bytes / 4));
      if (route.is_quick) return route.answer(service, exchange);
      const bool posted =
          service.prepare.try_post([this, exchange, &route] { answer_errors(*exchange, [&] { route.answer(service, exchange); }); });
      if (!posted) throw ApiError(429, "rate_limit_exceeded", "too many requests are waiting; try again later");
    });
  }

  Service service;
  std::optional<Gate> gate;
  std::unique_ptr<HttpServer> http;
};

Server::Server(const std::vector<std::string>& models, const ServeOptions& options) : state_(std::make_unique<State>(models, options)) {
  State& state = *state_;
  allow_descriptors(options.max_connections);
  const bool is_local = options.host == "localhost" || options.host == "::1" || options.host.starts_with("127.");
  if (!is_local && options.api_key.empty() && !options.insecure)
    throw Error(
        Code::kBadArgument,
        fmt::format("{} can be reached from other machines; set an API key (--api-key), or --insecure to serve everybody", options.host));
  state.service.registry.load_now(state.service.registry.list().front().facts.name);
  state.gate.emplace(state.service.options, is_local);
  HttpHandlers handlers{
      [&state](const Request& request) { return state.refusal(request); },
      [&state](Request request, std::shared_ptr<Responder> responder) { state.handle(std::move(request), std::move(responder)); }};
  state.http = std::make_unique<HttpServer>(options.host, options.port, limits_of(options), std::move(handlers));
  state.service.connections = [&state] {
    const HttpLoad load = state.http->load();
    return std::pair(load.n_connections, load.n_cut);
  };
  state.http->start();  // not before: requests use both
}

Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() {
  if (state_ != nullptr) stop();
}

int Server::port() const { return state_->http->port(); }

std::string Server::url() const {
  const std::string& host = state_->service.options.host;
  return host.find(':') != std::string::npos ? fmt::format("http://[{}]:{}", host, port()) : fmt::format("http://{}:{}", host, port());
}

void Server::stop() {
  state_->service.stopping = true;
  state_->http->stop(state_->service.options.grace);
}

}  // namespace kvik
