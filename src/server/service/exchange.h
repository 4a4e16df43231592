#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "kvik/serve.h"
#include "server/http/message.h"
#include "server/json/fields.h"
#include "server/service/metrics.h"

namespace kvik::server {

// The format of errors.
enum class Style { kOpenAi, kOllama };
std::string error_body(Style style, const ApiError& error);

struct ExchangeCounts {
  int prompt_tokens = 0;
  int reused_tokens = 0;
  int completion_tokens = 0;
  double first_token_ms = 0;
};

// A request and its answer, from the first byte to the line in the access log. Any thread may call; one at a time may set fields.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Request of, std::shared_ptr<Responder> responder, const ServeOptions& options, MetricTable& metrics);
  ~Exchange();

  const Request request;
  const std::string id;  // the client's x-request-id, or a new one
  Style style = Style::kOpenAi;
  std::string endpoint;  // the pattern of the route
  std::string model;
  std::string user;  // for fairness: the `user` of the request, else the client's address
  std::string finish;
  ExchangeCounts counts;
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  void send(Response response);
  void send(const Json& json) { send(Response{.body = dump(json)}); }
  void fail(const ApiError& error);  // only if nothing has been sent
  void begin(std::string_view content_type);
  void write(std::string_view part);
  void end();

  bool post(std::function<void()> work) { return responder_->post(std::move(work)); }  // false if the server has ended
  void on_disconnect(std::function<void()> call);
  bool is_gone() const { return gone_; }

 private:
  void add_headers(Headers& headers) const;
  void log_once();

  std::shared_ptr<Responder> responder_;
  const ServeOptions& options_;
  MetricTable& metrics_;
  int status_ = 0;
  std::string error_;
  size_t sent_bytes_ = 0;
  std::atomic<bool> gone_{false}, logged_{false}, ended_{false};
};

// Logs a request that was refused before its body was read.
void log_refusal(const Request& request, Response& response, const ServeOptions& options, MetricTable& metrics);

double ms_since(std::chrono::steady_clock::time_point start);
std::string random_id(size_t n_characters);                                                            // letters and digits
std::string timestamp(std::chrono::system_clock::time_point time = std::chrono::system_clock::now());  // 2026-01-31T12:00:00.000Z

}  // namespace kvik::server
