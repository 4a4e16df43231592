#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/http/http_server.h"
#include "server/http/message.h"

namespace kvik::server {

// Makes requests of the bytes of a connection, one after the other.
class RequestReader {
 public:
  explicit RequestReader(const HttpLimits& limits);
  ~RequestReader();

  enum class Status { kMore, kDone, kFailed };

  void add(std::string_view bytes) { input_ += bytes; }
  void drop_input() { input_.clear(); }
  // Goes on with what was added. Stops after the header even if there is more, so that the caller can look at it.
  Status read();

  bool is_empty() const;  // nothing of a request has arrived
  bool is_full() const;   // of requests that wait while one is answered
  bool has_header() const { return has_header_; }
  bool has_body_left() const { return has_header_ && !is_done_ && !input_.empty(); }
  bool expects_continue() const { return expects_continue_; }
  bool keeps_alive() const { return keeps_alive_; }
  bool is_http_1_1() const { return is_http_1_1_; }
  size_t body_bytes() const;
  Request& request() { return request_; }  // after the header; the body comes with take()
  Response failure() const { return failure_; }

  Request take();  // after kDone; the next one begins

 private:
  struct Parser;
  void begin();
  void drop_empty_lines();
  Status fail(int status, std::string_view sentence);
  Status take_header();

  const HttpLimits& limits_;
  std::unique_ptr<Parser> parser_;
  std::string input_;  // not parsed yet
  Request request_;
  Response failure_;
  bool has_header_ = false, is_done_ = false, has_begun_ = false;
  bool expects_continue_ = false, keeps_alive_ = true, is_http_1_1_ = true;
};

}  // namespace kvik::server
