#include <fmt/format.h>

#include "server/chat/translate_text.h"
#include "server/openai/openai.h"
#include "server/openai/request.h"

namespace kvik::server::openai {
namespace {

constexpr size_t kMostTexts = 1024;

struct TranslationRequest {
  std::string model;
  std::vector<std::string> input;
  TranslateOptions options;
};

TranslationRequest read_translation_request(const Fields& body, const ServeOptions& limits) {
  TranslationRequest request;
  request.model = body.required_text("model");
  request.input = body.texts("input", kMostTexts);
  if (!body.has("input")) body.fail("input", "a string or a list of strings");
  size_t n_bytes = 0;
  for (const std::string& text : request.input) n_bytes += text.size();
  if (n_bytes > limits.max_prompt_bytes)
    throw ApiError(413, "", fmt::format("'input' has {} bytes; this server takes {}", n_bytes, limits.max_prompt_bytes), "input");
  if (const auto beams = body.integer("beams", 1, 64)) request.options.beams = static_cast<int>(*beams);
  if (const auto most = body.integer("max_tokens", 1, limits.max_tokens)) request.options.max_tokens = static_cast<int>(*most);
  request.options.length_penalty = body.number("length_penalty", -10, 10);
  request.options.sampling.temperature = body.number("temperature", 0, 2);
  if (const auto seed = body.integer("seed", INT64_MIN, INT64_MAX)) request.options.sampling.seed = static_cast<uint64_t>(*seed);
  request.options.language = body.text("language").value_or("");
  request.options.source_language = body.text("source_language").value_or("");
  return request;
}

}  // namespace

void translations(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json json = parse_body(exchange->request.body);
  TranslationRequest request = read_translation_request(Fields(json), service.options);
  service.with_model(exchange, request.model, [&service, exchange, request](const Registry::Handle& model) {
    if (!translates_text(*model)) throw ApiError(400, "", fmt::format("{} is not a translation model", model->facts.name), "model");
    translate(service, exchange, model, request.input, request.options, [exchange](const std::vector<Translation>& all) {
      Json data = Json::array();
      for (const Translation& each : all)
        data.push_back({{"index", data.size()},
                        {"object", "translation"},
                        {"text", each.text},
                        {"score", each.score},
                        {"finish_reason", finish_reason(each.finish)}});
      exchange->send({{"object", "list"},
                      {"model", exchange->model},
                      {"data", std::move(data)},
                      {"usage", usage_json(exchange->counts.prompt_tokens, exchange->counts.completion_tokens, 0)}});
    });
  });
}

}  // namespace kvik::server::openai
