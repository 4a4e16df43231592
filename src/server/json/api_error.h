#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace kvik::server {

// Why a request gets no answer: an HTTP status and one sentence. Each interface writes it in its own form.
class ApiError : public std::runtime_error {
 public:
  ApiError(int status, std::string_view code, const std::string& sentence, std::string_view field = {})
      : std::runtime_error(sentence), status_(status), code_(code), field_(field) {}

  int status() const { return status_; }
  const std::string& code() const { return code_; }    // "model_not_found", …; may be empty
  const std::string& field() const { return field_; }  // of the request, if one is to blame

 private:
  int status_;
  std::string code_, field_;
};

// The error that is being handled, as one for the client: what the request is to blame for, and all else without its details.
ApiError current_api_error();

}  // namespace kvik::server
