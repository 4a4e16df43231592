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
  size_t max_unsent_bytes = 1 << 20;            // of an answer in parts: a client that is further behind is cut off
  int max_connections = 4096;
  std::chrono::milliseconds idle_timeout{75'000};    // between two requests
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte of a request to the end of its header
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds write_timeout{30'000};  // in which a client takes nothing
  size_t slowest_bytes_per_s = 16 << 10;            // at which a client takes the end of an answer, beside that time
};

// What the server asks. Both are called on its thread and must be short.
struct HttpHandlers {
  // Once the header is read, and before the body: an answer refuses the request.
  std::function<std::optional<Response>(const Request&)> gate;
  std::function<void(Request, std::shared_ptr<Responder>)> handle;
};

struct HttpLoad {
  size_t n_connections = 0;
  size_t n_cut = 0;  // connections that were ended for being too slow or too many
};

// HTTP/1.1 on one thread, however many connections there are.
class HttpServer {
 public:
  // Listens when it returns; clients wait for start(). Port 0: a free one. Throws Error(kIo) if the address cannot be used.
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
  std::shared_ptr<State> state_;  // answers that nobody has completed may outlive the server
};

}  // namespace kvik::server
