#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/json/fields.h"
#include "server/service/registry.h"

namespace kvik::server::openai {

// What /v1/chat/completions and /v1/completions have in common.
struct TextRequest {
  std::string model;
  GenerateOptions options;  // of the first choice
  int n = 1;                // choices in the answer
  int best_of = 1;          // choices that are generated
  bool shows_logprobs = false;
  bool stream = false;
  bool include_usage = false;

  // One per choice. With a seed, choice i has seed + i.
  std::vector<GenerateOptions> choices() const;
};
TextRequest read_text_request(const Fields& body, const ServeOptions& limits);

// Names of fields that would change the answer and that no model here has. Throws ApiError(400) that names the first one found.
void refuse(const Fields& body, const std::vector<std::string_view>& names);
// A translation is one choice: throws ApiError(400) if the request wants more.
void refuse_choices_of_translation(const LoadedModel& model, const TextRequest& request);

Json usage_json(int n_prompt, int n_completion, int n_cached);

// "stop", "length"
std::string_view finish_reason(Finish finish);

}  // namespace kvik::server::openai
