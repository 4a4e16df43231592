#include "server/chat/translate_text.h"

#include <fmt/format.h>

#include "server/service/task.h"

namespace kvik::server {

bool translates_text(const LoadedModel& model) { return model.model.has_encoder() && model.model.feature_rank() == 0; }

void refuse_for_translation(const LoadedModel& model, std::string_view field) {
  throw ApiError(400, "unsupported_parameter", fmt::format("{} translates, and '{}' is not supported for it", model.facts.name, field),
                 std::string(field));
}

void translate(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model,
               const std::vector<std::string>& texts, const TranslateOptions& options, std::function<void(std::vector<Translation>)> done) {
  const auto submit = [&](Engine& engine, const RequestOptions& how) { return engine.try_translate(texts, options, how); };
  run_task<std::vector<Translation>>(service, exchange, model, submit, [&service, exchange, done](std::vector<Translation> found) {
    for (const Translation& each : found) {
      exchange->counts.prompt_tokens += static_cast<int>(each.source_ids.size());
      exchange->counts.completion_tokens += static_cast<int>(each.ids.size());
    }
    const Labels labels = {{"model", exchange->model}};
    service.metrics.add("kvik_prompt_tokens_total", labels, exchange->counts.prompt_tokens);
    service.metrics.add("kvik_generated_tokens_total", labels, exchange->counts.completion_tokens);
    done(std::move(found));
  });
}

void answer_with_translation(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model,
                             const std::vector<std::string>& texts, const GenerateOptions& options, std::unique_ptr<AnswerWriter> writer) {
  if (options.constraint) refuse_for_translation(*model, exchange->style == Style::kOllama ? "format" : "response_format");
  if (options.logprobs) refuse_for_translation(*model, "logprobs");
  TranslateOptions how;
  how.max_tokens = options.max_tokens;
  how.sampling = options.sampling;
  how.beams = options.beams;
  how.stop = options.stop;
  how.scores = false;
  const std::shared_ptr<AnswerWriter> shared = std::move(writer);
  const double load_ms = ms_since(exchange->start);
  translate(service, exchange, model, texts, how, [exchange, shared, load_ms](const std::vector<Translation>& found) {
    GenerationSummary summary{.prompt_tokens = exchange->counts.prompt_tokens, .completion_tokens = exchange->counts.completion_tokens};
    summary.load_ms = load_ms;
    summary.total_ms = ms_since(exchange->start);
    summary.decode_ms = summary.total_ms - load_ms;
    exchange->post([shared, found, summary] {
      for (size_t i = 0; i < found.size(); ++i) shared->update(i, whole_update(found[i].text, found[i].finish));
      shared->done(summary);
    });
  });
}

}  // namespace kvik::server
