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

Json usage_json(const GenerationSummary& summary) {
  return usage_json(summary.prompt_tokens, summary.completion_tokens, summary.reused_tokens);
}

EventStream::EventStream(std::shared_ptr<Exchange> exchange, Envelope envelope, std::string_view object, bool include_usage)
    : exchange_(std::move(exchange)), envelope_(std::move(envelope)), object_(object), include_usage_(include_usage) {}

bool EventStream::begin() {
  if (std::exchange(has_begun_, true)) return false;
  exchange_->begin("text/event-stream");
  return true;
}

std::string EventStream::event(Json choice) const {
  Json json = object();
  json["choices"] = Json::array({std::move(choice)});
  if (include_usage_) json["usage"] = nullptr;
  return fmt::format("data: {}\n\n", dump(json));
}

void EventStream::end(const GenerationSummary& summary) {
  if (include_usage_) {
    Json last = object();
    last["choices"] = Json::array();
    last["usage"] = usage_json(summary);
    exchange_->write(fmt::format("data: {}\n\n", dump(last)));
  }
  exchange_->write("data: [DONE]\n\n");
  exchange_->end();
}

void EventStream::fail(const ApiError& error) {
  if (!has_begun_) return exchange_->fail(error);
  exchange_->write(fmt::format("data: {}\n\ndata: [DONE]\n\n", error_body(Style::kOpenAi, error)));
  exchange_->end();
}

}  // namespace kvik::server::openai
