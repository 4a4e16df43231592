#include "server/openai/request.h"

#include <charconv>
#include <fmt/format.h>

#include "server/chat/translate_text.h"

namespace kvik::server::openai {
namespace {

constexpr size_t kMostStops = 64, kMostBiases = 1024;
constexpr int kMostTopLogprobs = 20;

std::vector<std::pair<TokenId, double>> read_logit_bias(const Fields& bias) {
  std::vector<std::pair<TokenId, double>> biases;
  if (bias.json().size() > kMostBiases)
    throw ApiError(400, "", fmt::format("'logit_bias' has more than {} entries", kMostBiases), "logit_bias");
  for (const auto& [key, value] : bias.json().items()) {
    TokenId id = 0;
    const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (fault != std::errc() || end != key.data() + key.size() || id < 0) bias.fail(key, "a token id as its name");
    const std::optional<double> number = bias.number(key, -100, 100);
    if (!number) bias.fail(key, "a number from -100 to 100");
    biases.emplace_back(id, *number);
  }
  return biases;
}

Sampling read_sampling(const Fields& body) {
  Sampling sampling;
  sampling.temperature = body.number("temperature", 0, 2);
  sampling.top_p = body.number("top_p", 0, 1);
  sampling.presence_penalty = body.number("presence_penalty", -2, 2);
  sampling.frequency_penalty = body.number("frequency_penalty", -2, 2);
  // As other servers of this interface have them.
  if (const auto top_k = body.integer("top_k", -1, 1 << 30)) sampling.top_k = static_cast<int>(std::max<int64_t>(0, *top_k));
  sampling.min_p = body.number("min_p", 0, 1);
  sampling.repetition_penalty = body.number("repetition_penalty", 0.01, 100);
  if (const auto seed = body.integer("seed", INT64_MIN, INT64_MAX)) sampling.seed = static_cast<uint64_t>(*seed);
  if (const std::optional<Fields> bias = body.object("logit_bias")) sampling.logit_bias = read_logit_bias(*bias);
  return sampling;
}

// A number in /v1/completions, true and a second field in /v1/chat/completions.
std::optional<int> read_logprobs(const Fields& body) {
  const Json* const logprobs = body.find("logprobs");
  const std::optional<int64_t> top = body.integer("top_logprobs", 0, kMostTopLogprobs);
  if (logprobs == nullptr || *logprobs == false) {
    if (top && *top > 0) body.fail("logprobs", "true, because 'top_logprobs' is set,");
    return std::nullopt;
  }
  if (logprobs->is_boolean()) return static_cast<int>(top.value_or(0));
  return static_cast<int>(*body.integer("logprobs", 0, kMostTopLogprobs));
}

}  // namespace

TextRequest read_text_request(const Fields& body, const ServeOptions& limits) {
  TextRequest request;
  request.model = body.required_text("model");
  GenerateOptions& options = request.options;
  options.sampling = read_sampling(body);
  options.stop = body.texts("stop", kMostStops);
  options.logprobs = read_logprobs(body);
  request.shows_logprobs = options.logprobs.has_value();
  options.ignore_eos = body.boolean("ignore_eos").value_or(false);
  options.use_cache = body.boolean("use_cache").value_or(true);  // false: for comparison
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    if (const auto most = body.integer(name, 0, limits.max_tokens)) options.max_tokens = static_cast<int>(*most);
  }
  request.n = static_cast<int>(body.integer("n", 1, limits.max_choices).value_or(1));
  request.best_of = static_cast<int>(body.integer("best_of", request.n, limits.max_choices).value_or(request.n));
  request.stream = body.boolean("stream").value_or(false);
  if (const std::optional<Fields> stream = body.object("stream_options"))
    request.include_usage = stream->boolean("include_usage").value_or(false);
  if (request.stream && request.best_of > request.n)
    body.fail("best_of", "a value equal to 'n' for a stream, because the best ones are known only at the end,");
  if (request.best_of > request.n && !options.logprobs) options.logprobs = 0;
  return request;
}

std::vector<GenerateOptions> TextRequest::choices() const {
  std::vector<GenerateOptions> all(static_cast<size_t>(best_of), options);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].sampling.seed) *all[i].sampling.seed += i;
  }
  return all;
}

void refuse(const Fields& body, const std::vector<std::string_view>& names) {
  for (const std::string_view name : names) {
    const Json* const value = body.find(name);
    const bool is_none = value == nullptr || *value == false || *value == "" || (value->is_structured() && value->empty());
    if (is_none) continue;
    throw ApiError(400, "unsupported_parameter", fmt::format("'{}' is not supported by this server; leave it out", name), name);
  }
}

void refuse_choices_of_translation(const LoadedModel& model, const TextRequest& request) {
  if (request.n > 1) refuse_for_translation(model, "n");
  if (request.best_of > 1) refuse_for_translation(model, "best_of");
}

Json usage_json(int n_prompt, int n_completion, int n_cached) {
  return {{"prompt_tokens", n_prompt},
          {"completion_tokens", n_completion},
          {"total_tokens", n_prompt + n_completion},
          {"prompt_tokens_details", {{"cached_tokens", n_cached}}}};
}

std::string_view finish_reason(Finish finish) { return finish == Finish::kLength ? "length" : "stop"; }

}  // namespace kvik::server::openai
