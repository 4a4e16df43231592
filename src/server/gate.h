#pragma once

#include <optional>

#include "kvik/serve.h"
#include "server/http/message.h"

namespace kvik::server {

// Access control by the header alone, before the body is read: returns the response of a refusal, else nothing.
class Gate {
 public:
  Gate(const ServeOptions& options, bool is_loopback) : options_(options), is_loopback_(is_loopback) {}
  std::optional<Response> refusal(const Request& request) const;

 private:
  bool has_key(const Request& request) const;
  bool is_own_host(std::string_view host) const;
  bool allows_origin(const Request& request) const;

  const ServeOptions& options_;
  bool is_loopback_;
};

// Takes the same time for all texts of one length.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace kvik::server
