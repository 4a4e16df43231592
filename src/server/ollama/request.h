#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "server/json/fields.h"
#include "server/service/registry.h"

namespace kvik::server::ollama {

// What /api/generate and /api/chat have in common.
struct TextRequest {
  std::string model;
  GenerateOptions options;
  bool stream = true;
  std::optional<std::chrono::seconds> keep_alive;  // negative: forever
  Json template_variables = Json::object();        // the value of `think`, for templates that support it
};
TextRequest read_text_request(const Fields& body, const ServeOptions& limits);

// "5m", "1h30m", "300ms", or seconds as a number or a string; negative: forever. Nothing for any other value.
std::optional<std::chrono::seconds> parse_duration(std::string_view text);
std::optional<std::chrono::seconds> read_keep_alive(const Fields& body);

}  // namespace kvik::server::ollama
