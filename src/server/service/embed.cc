#include "server/service/embed.h"

#include <fmt/format.h>

namespace kvik::server {

std::vector<Embedding> embed(Service& service, const std::shared_ptr<Exchange>& exchange, const LoadedModel& model, const EmbedInput& input,
                             EmbedOptions options) {
  if (!model.model.can_embed()) throw ApiError(400, "", fmt::format("{} gives no embeddings", model.facts.name), "model");
  const auto deadline = exchange->start + service.options.timeout;
  bool is_late = false;
  options.cancelled = [&] { return is_late = exchange->is_gone() || std::chrono::steady_clock::now() > deadline; };
  std::vector<Embedding> vectors = std::visit([&](const auto& texts) { return model.model.embed(std::span(texts), options); }, input);
  if (is_late) throw ApiError(504, "timeout", "the time for this request is over");
  for (const Embedding& vector : vectors) exchange->counts.prompt_tokens += vector.tokens;
  service.metrics.add("kvik_prompt_tokens_total", {{"model", model.facts.name}}, exchange->counts.prompt_tokens);
  return vectors;
}

}  // namespace kvik::server
