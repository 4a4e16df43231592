#pragma once

#include <vector>

#include "server/json/fields.h"
#include "server/service/registry.h"

namespace kvik::server {

// An answer in one piece is kept until its end, and log-probabilities are most of it. Throws ApiError(400) if there would be too many;
// `n_tokens`: of all prompts that are shown, and all that may be generated; `n_top`: with each.
void check_logprobs(size_t n_tokens, int n_top);

// {"content": [{"token", "logprob", "bytes", "top_logprobs"}, …]}
Json chat_logprobs(const LoadedModel& model, const std::vector<GeneratedToken>& tokens);

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, extended as tokens arrive.
class CompletionLogprobs {
 public:
  void add(const LoadedModel& model, const std::vector<GeneratedToken>& tokens);
  void add_without_logprob(const LoadedModel& model, TokenId id);  // the first token of a prompt
  Json take();                                                     // what was added since the last call
  bool empty() const { return tokens_.empty(); }

 private:
  void add_token(const LoadedModel& model, TokenId id, Json logprob, Json top);

  Json tokens_ = Json::array(), logprobs_ = Json::array(), top_ = Json::array(), offsets_ = Json::array();
  size_t offset_ = 0;
};

}  // namespace kvik::server
