#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace kvik::server {

// Why a request failed: an HTTP status and one sentence. Each API writes it in its own format.
class ApiError : public std::runtime_error {
 public:
  ApiError(int status, std::string_view code, const std::string& sentence, std::string_view field = {})
      : std::runtime_error(sentence), status_(status), code_(code), field_(field) {}

  int status() const { return status_; }
  const std::string& code() const { return code_; }    // "model_not_found", …; may be empty
  const std::string& field() const { return field_; }  // of the request, if it causes the error

 private:
  int status_;
  std::string code_, field_;
};

// The exception that is being handled as an error for the client. Only errors that the request causes include their details.
ApiError current_api_error();

}  // namespace kvik::server
