#include "server/service/exchange.h"

#include <algorithm>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <random>

namespace kvik::server {
namespace {

constexpr size_t kLongestId = 128;

// What is safe to send back in a header and to write into a log.
bool is_plain(std::string_view text) {
  return !text.empty() && text.size() <= kLongestId &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '\\'; });
}

std::string_view error_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 429: return "rate_limit_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

// A page of the allowed origin may read the answer, errors too.
void add_origin(const Request& request, const ServeOptions& options, Headers& headers) {
  if (options.cors_origin.empty() || request.header("origin").empty()) return;
  headers.emplace_back("access-control-allow-origin", options.cors_origin);
  headers.emplace_back("access-control-expose-headers", "x-request-id, retry-after");
  headers.emplace_back("vary", "origin");
}

std::string id_of(const Request& request) {
  const std::string_view given = request.header("x-request-id");
  return is_plain(given) ? std::string(given) : "req_" + random_id(24);
}

}  // namespace

std::string timestamp(std::chrono::system_clock::time_point time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(time)), ms);
}

void log_refusal(const Request& request, Response& response, const ServeOptions& options, MetricTable& metrics) {
  const std::string id = id_of(request);
  response.headers.emplace_back("x-request-id", id);
  add_origin(request, options, response.headers);
  metrics.add("kvik_requests_total", {{"endpoint", "none"}, {"status", std::to_string(response.status)}});
  if (!options.log_request) return;
  options.log_request(dump(
      {{"time", timestamp()}, {"id", id}, {"peer", request.peer}, {"method", request.method.substr(0, 20)}, {"status", response.status}}));
}

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::string random_id(size_t n_characters) {
  static constexpr std::string_view kCharacters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  thread_local std::mt19937_64 random{std::random_device()()};
  std::string id(n_characters, ' ');
  for (char& c : id) c = kCharacters[random() % kCharacters.size()];
  return id;
}

std::string error_body(Style style, const ApiError& error) {
  if (style == Style::kOllama) return dump({{"error", error.what()}});
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return dump({{"error",
                {{"message", error.what()},
                 {"type", error_type(error.status())},
                 {"param", or_null(error.field())},
                 {"code", or_null(error.code())}}}});
}

Exchange::Exchange(Request of, std::shared_ptr<Responder> responder, const ServeOptions& options, MetricTable& metrics)
    : request(std::move(of)), id(id_of(request)), responder_(std::move(responder)), options_(options), metrics_(metrics) {
  user = request.peer;
}

Exchange::~Exchange() { log_once(); }

void Exchange::on_disconnect(std::function<void()> call) {
  responder_->on_disconnect([weak = weak_from_this(), call = std::move(call)] {
    if (const std::shared_ptr<Exchange> self = weak.lock()) self->gone_ = true;
    call();
  });
}

void Exchange::add_headers(Headers& headers) const {
  headers.emplace_back("x-request-id", id);
  if (const std::string_view trace = request.header("traceparent"); is_plain(trace)) headers.emplace_back("traceparent", trace);
  add_origin(request, options_, headers);
  headers.emplace_back("x-content-type-options", "nosniff");
}

void Exchange::send(Response response) {
  if (ended_.exchange(true)) return;
  status_ = response.status;
  sent_bytes_ = response.body.size();
  add_headers(response.headers);
  responder_->send(std::move(response));
  log_once();
}

void Exchange::fail(const ApiError& error) {
  error_ = error.what();
  Response response{error.status(), error_body(style, error)};
  if (error.status() == 429 || error.status() == 503) response.headers.emplace_back("retry-after", "1");
  if (error.status() == 401) response.headers.emplace_back("www-authenticate", "Bearer");
  send(std::move(response));
}

void Exchange::begin(std::string_view content_type) {
  if (ended_) return;
  status_ = 200;
  Response head{.content_type = std::string(content_type), .headers = {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}}};
  add_headers(head.headers);
  responder_->begin(std::move(head));
}

void Exchange::write(std::string_view part) {
  sent_bytes_ += part.size();
  responder_->write(part);
}

void Exchange::end() {
  if (ended_.exchange(true)) return;
  responder_->end();
  log_once();
}

void Exchange::log_once() {
  if (logged_.exchange(true)) return;
  const int status = status_ != 0 && (!gone_ || ended_) ? status_ : 499;  // 499: the client has gone, as in nginx
  metrics_.add("kvik_requests_total", {{"endpoint", endpoint}, {"status", std::to_string(status)}});
  metrics_.observe("kvik_request_seconds", {{"endpoint", endpoint}}, ms_since(start) / 1e3);
  if (!options_.log_request) return;
  Json line = {{"time", timestamp()},  {"id", id},        {"peer", request.peer}, {"method", request.method},
               {"endpoint", endpoint}, {"status", status}};
  if (!model.empty()) line["model"] = model;
  if (const std::string_view trace = request.header("traceparent"); is_plain(trace)) line["trace"] = trace;
  if (counts.prompt_tokens + counts.reused_tokens > 0) {
    line["prompt_tokens"] = counts.prompt_tokens;
    line["reused_tokens"] = counts.reused_tokens;
    line["completion_tokens"] = counts.completion_tokens;
    line["first_token_ms"] = counts.first_token_ms;
  }
  if (!finish.empty()) line["finish"] = finish;
  line["bytes_in"] = request.body.size();
  line["bytes_out"] = sent_bytes_;
  line["ms"] = ms_since(start);
  if (status >= 500) line["error"] = error_;  // those of clients may quote their text
  options_.log_request(dump(line));
}

}  // namespace kvik::server
