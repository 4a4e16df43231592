#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "server/http/message.h"

namespace kvik::server {

struct HttpLimits {
  size_t max_header_bytes = 32 << 10;
  size_t max_body_bytes = 32 << 20;
  size_t max_buffered_bytes = size_t{1} << 30;  // bodies of all connections together
  size_t max_unsent_bytes = 1 << 20;            // of an answer in parts: a client that is further behind is disconnected
  int max_connections = 4096;
  std::chrono::milliseconds idle_timeout{75'000};    // between two requests
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte of a request to the end of its header
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds write_timeout{30'000};  // without reading anything
  size_t slowest_bytes_per_s = 16 << 10;            // rate at which a client must read the end of an answer
};

// Callbacks of the server. Both are called on its thread and must be fast.
struct HttpHandlers {
  // Called after the header, before the body is read; returns a response to refuse the request.
  std::function<std::optional<Response>(const Request&)> gate;
  std::function<void(Request, std::shared_ptr<Responder>)> handle;
};

struct HttpLoad {
  size_t n_connections = 0;
  size_t n_cut = 0;  // connections closed because they were too slow or too many
};

// HTTP/1.1; one thread serves all connections.
class HttpServer {
 public:
  // Listens when it returns; requests are read from start() on. Port 0: a free one. Throws Error(kIo) if the address cannot be used.
  HttpServer(const std::string& host, int port, const HttpLimits& limits, HttpHandlers handlers);
  ~HttpServer();  // closes everything
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  void start();  // once: handlers are called from now on

  int port() const;
  bool is_loopback() const;  // listens to clients of this machine only
  HttpLoad load() const;     // any thread

  // Accepts no more connections and requests, and waits until all answers are sent or the time is over; then closes everything.
  void stop(std::chrono::milliseconds grace);

 private:
  struct State;
  std::shared_ptr<State> state_;  // incomplete answers may outlive the server
};

}  // namespace kvik::server
