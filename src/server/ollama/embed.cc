#include "server/service/embed.h"

#include <fmt/format.h>

#include "server/ollama/ollama.h"
#include "server/ollama/request.h"

namespace kvik::server::ollama {
namespace {

constexpr size_t kMostInputs = 2048;

// Vectors of texts; `write` makes the answer of them.
void answer(Service& service, const std::shared_ptr<Exchange>& exchange, const Fields& body, std::vector<std::string> texts,
            std::function<Json(const std::vector<Embedding>&)> write) {
  const std::string name = body.required_text("model");
  EmbedOptions options;
  options.truncate = body.boolean("truncate").value_or(true);
  if (const auto dimensions = body.integer("dimensions", 1, 1 << 20)) options.dimensions = static_cast<int>(*dimensions);
  size_t n_bytes = 0;
  for (const std::string& text : texts) n_bytes += text.size();
  if (n_bytes > service.options.max_prompt_bytes)
    throw ApiError(413, "", fmt::format("the input has {} bytes; this server takes {}", n_bytes, service.options.max_prompt_bytes));
  const auto work = [=, &service](const Registry::Handle& model) {
    const double load_ms = ms_since(exchange->start);
    embed(service, exchange, model, texts, options, [=](const std::vector<Embedding>& vectors) {
      Json json = write(vectors);
      if (json.contains("embeddings")) {
        json["total_duration"] = static_cast<int64_t>(ms_since(exchange->start) * 1e6);
        json["load_duration"] = static_cast<int64_t>(load_ms * 1e6);
        json["prompt_eval_count"] = exchange->counts.prompt_tokens;
      }
      exchange->send(json);
    });
  };
  service.with_model(exchange, name, work, read_keep_alive(body));
}

}  // namespace

void embed_texts(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json json = parse_body(exchange->request.body);
  const Fields body(json);
  const std::string name = body.required_text("model");
  answer(service, exchange, body, body.texts("input", kMostInputs), [name](const std::vector<Embedding>& vectors) {
    Json all = Json::array();
    for (const Embedding& vector : vectors) all.push_back(vector.values);
    return Json{{"model", name}, {"embeddings", std::move(all)}};
  });
}

void embed_prompt(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json json = parse_body(exchange->request.body);
  const Fields body(json);
  answer(service, exchange, body, {body.required_text("prompt")}, [](const std::vector<Embedding>& vectors) {
    return Json{{"embedding", vectors.front().values}};
  });
}

}  // namespace kvik::server::ollama
