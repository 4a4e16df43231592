#include "server/chat/translate_text.h"

namespace kvik::server {

bool translates_text(const LoadedModel& model) { return model.model.has_encoder() && model.model.feature_rank() == 0; }

std::vector<Translation> translate(Service& service, const std::shared_ptr<Exchange>& exchange, const LoadedModel& model,
                                   const std::vector<std::string>& texts, TranslateOptions options) {
  const auto deadline = exchange->start + service.options.timeout;
  options.cancelled = [&] { return exchange->is_gone() || std::chrono::steady_clock::now() > deadline; };
  std::vector<Translation> found = model.model.translate(texts, options);
  for (const Translation& each : found) {
    if (each.finish != Finish::kCancelled) {
      exchange->counts.prompt_tokens += static_cast<int>(each.source_ids.size());
      exchange->counts.completion_tokens += static_cast<int>(each.ids.size());
    } else {
      throw ApiError(504, "timeout", "the time for this request is over");
    }
  }
  const Labels labels = {{"model", model.facts.name}};
  service.metrics.add("kvik_prompt_tokens_total", labels, exchange->counts.prompt_tokens);
  service.metrics.add("kvik_generated_tokens_total", labels, exchange->counts.completion_tokens);
  return found;
}

void answer_with_translation(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model, std::string text,
                             const GenerateOptions& options, std::unique_ptr<AnswerWriter> writer) {
  TranslateOptions how;
  how.max_tokens = options.max_tokens;
  how.sampling = options.sampling;
  how.beams = options.beams;
  how.stop = options.stop;
  exchange->on_disconnect([] {});
  const std::shared_ptr<AnswerWriter> shared = std::move(writer);
  const double load_ms = ms_since(exchange->start);
  service.run_model(exchange, [&service, exchange, model, text = std::move(text), how, shared, load_ms] {
    const auto start = std::chrono::steady_clock::now();
    Translation best = translate(service, exchange, *model, {text}, how).front();
    GenerationSummary summary{.prompt_tokens = exchange->counts.prompt_tokens, .completion_tokens = exchange->counts.completion_tokens};
    summary.load_ms = load_ms;
    summary.decode_ms = ms_since(start);
    summary.total_ms = ms_since(exchange->start);
    exchange->post([shared, update = whole_update(std::move(best.text), best.finish), summary] {
      shared->update(0, update);
      shared->done(summary);
    });
  });
}

}  // namespace kvik::server
