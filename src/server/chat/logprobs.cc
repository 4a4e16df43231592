#include "server/chat/logprobs.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/utf8.h"

namespace kvik::server {
namespace {

constexpr size_t kMostLogprobs = size_t{1} << 19;  // of one answer: about 100 MB while it is written
constexpr double kLeast = -9999;                   // for a probability of 0, which JSON has no logarithm of

// What the token adds to a text, which may be part of a character.
std::string bytes_of(const LoadedModel& model, TokenId id) {
  return model.model.has_tokenizer() ? model.model.token_bytes(id) : std::to_string(id);
}

Json token_json(const LoadedModel& model, const TokenLogprob& token) {
  const std::string text = bytes_of(model, token.id);
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<uint8_t>(c));
  return {{"token", utf8::replaced(text)}, {"logprob", std::max(kLeast, token.logprob)}, {"bytes", std::move(bytes)}};
}

}  // namespace

void check_logprobs(size_t n_tokens, int n_top) {
  const size_t n = n_tokens * (1 + static_cast<size_t>(n_top));
  if (n > kMostLogprobs)
    throw ApiError(400, "",
                   fmt::format("this may give {} log-probabilities; at most {} were expected unless 'stream' is set", n, kMostLogprobs),
                   "logprobs");
}

Json chat_logprobs(const LoadedModel& model, const std::vector<GeneratedToken>& tokens) {
  Json content = Json::array();
  for (const GeneratedToken& token : tokens) {
    Json entry = token_json(model, token);
    entry["top_logprobs"] = Json::array();
    for (const TokenLogprob& other : token.top) entry["top_logprobs"].push_back(token_json(model, other));
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

void CompletionLogprobs::add_token(const LoadedModel& model, TokenId id, Json logprob, Json top) {
  const std::string text = bytes_of(model, id);
  tokens_.push_back(utf8::replaced(text));
  logprobs_.push_back(std::move(logprob));
  top_.push_back(std::move(top));
  offsets_.push_back(offset_);
  offset_ += static_cast<size_t>(std::ranges::count_if(text, [](char c) { return utf8::begins_character(c); }));
}

void CompletionLogprobs::add(const LoadedModel& model, const std::vector<GeneratedToken>& tokens) {
  for (const GeneratedToken& token : tokens) {
    Json top = Json::object();
    for (const TokenLogprob& other : token.top) top[utf8::replaced(bytes_of(model, other.id))] = std::max(kLeast, other.logprob);
    add_token(model, token.id, std::max(kLeast, token.logprob), std::move(top));
  }
}

void CompletionLogprobs::add_without_logprob(const LoadedModel& model, TokenId id) { add_token(model, id, nullptr, nullptr); }

Json CompletionLogprobs::take() {
  Json all = {{"tokens", std::move(tokens_)},
              {"token_logprobs", std::move(logprobs_)},
              {"top_logprobs", std::move(top_)},
              {"text_offset", std::move(offsets_)}};
  tokens_ = logprobs_ = top_ = offsets_ = Json::array();
  return all;
}

}  // namespace kvik::server
