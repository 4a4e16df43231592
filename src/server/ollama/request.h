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
  std::optional<std::chrono::seconds> keep_alive;  // negative: for good
  Json template_variables = Json::object();        // what `think` means to templates that know it
};
TextRequest read_text_request(const Fields& body, const ServeOptions& limits);

// "5m", "1h30m", "300ms", or seconds as a number or a text; negative: for good. Nothing if it is none of these.
std::optional<std::chrono::seconds> parse_duration(std::string_view text);
std::optional<std::chrono::seconds> read_keep_alive(const Fields& body);

}  // namespace kvik::server::ollama
