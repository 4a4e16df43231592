#include "server/service/embed.h"

#include <fmt/format.h>

#include "server/service/task.h"

namespace kvik::server {

void embed(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model, const Texts& texts,
           const EmbedOptions& options, std::function<void(std::vector<Embedding>)> done) {
  if (!model->model.can_embed()) throw ApiError(400, "", fmt::format("{} gives no embeddings", model->facts.name), "model");
  const auto submit = [&](Engine& engine, const RequestOptions& how) { return engine.try_embed(texts, options, how); };
  run_task<std::vector<Embedding>>(service, exchange, model, submit, [&service, exchange, done](std::vector<Embedding> vectors) {
    for (const Embedding& vector : vectors) exchange->counts.prompt_tokens += vector.tokens;
    service.metrics.add("kvik_prompt_tokens_total", {{"model", exchange->model}}, exchange->counts.prompt_tokens);
    done(std::move(vectors));
  });
}

}  // namespace kvik::server
