#include "server/openai/answer.h"

#include <fmt/format.h>

namespace kvik::server::openai {

Envelope::Envelope(const LoadedModel& of, std::string_view id_prefix)
    : id(std::string(id_prefix) + random_id(24)),
      created(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count()),
      model(of.facts.name),
      fingerprint("fp_" + of.facts.digest.substr(0, 10)) {}

Json Envelope::json(std::string_view object) const {
  return {{"id", id}, {"object", object}, {"created", created}, {"model", model}, {"system_fingerprint", fingerprint}};
}

std::string event(const Json& json) { return fmt::format("data: {}\n\n", dump(json)); }

Json usage_json(const GenerationSummary& summary) {
  return usage_json(summary.prompt_tokens, summary.completion_tokens, summary.reused_tokens);
}

void write_end(Exchange& exchange, Json last, const GenerationSummary* usage) {
  if (usage != nullptr) {
    last["choices"] = Json::array();
    last["usage"] = usage_json(*usage);
    exchange.write(event(last));
  }
  exchange.write("data: [DONE]\n\n");
  exchange.end();
}

void write_failure(Exchange& exchange, bool has_begun, const ApiError& error) {
  if (!has_begun) return exchange.fail(error);
  exchange.write(fmt::format("data: {}\n\ndata: [DONE]\n\n", error_body(Style::kOpenAi, error)));
  exchange.end();
}

}  // namespace kvik::server::openai
