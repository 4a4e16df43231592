#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/chat/tool_reader.h"
#include "server/openai/request.h"
#include "server/service/generation.h"

namespace kvik::server::openai {

// The fields that all objects of an answer have in common.
struct Envelope {
  Envelope(const LoadedModel& model, std::string_view id_prefix);
  Json json(std::string_view object) const;

  std::string id;
  int64_t created;  // Unix time
  std::string model;
  std::string fingerprint;
};

Json usage_json(const GenerationSummary& summary);

// A streamed answer: server-sent events with one choice each, then the usage if the request includes it.
class EventStream {
 public:
  // `object`: the type of the objects, a string literal.
  EventStream(std::shared_ptr<Exchange> exchange, Envelope envelope, std::string_view object, bool include_usage);

  // Sends the header. False if that has been done.
  bool begin();
  std::string event(Json choice) const;
  void write(const std::string& events) { exchange_->write(events); }
  void end(const GenerationSummary& summary);
  // An event if the stream has begun, else the answer of an error.
  void fail(const ApiError& error);

 private:
  Json object() const { return envelope_.json(object_); }

  std::shared_ptr<Exchange> exchange_;
  Envelope envelope_;
  std::string_view object_;
  bool include_usage_;
  bool has_begun_ = false;
};

struct ChatAnswer {
  std::shared_ptr<Exchange> exchange;
  Registry::Handle model;
  TextRequest request;
  std::vector<std::unique_ptr<ToolReader>> tools;  // one per choice, or none
};
std::unique_ptr<AnswerWriter> new_chat_writer(ChatAnswer answer);

struct CompletionAnswer {
  std::shared_ptr<Exchange> exchange;
  Registry::Handle model;
  TextRequest request;
  struct Echo {
    std::string text;                      // text to put before the choices of a prompt
    std::vector<GeneratedToken> logprobs;  // of the prompt, if requested; the first token has none
  };
  size_t n_prompts = 1;
  std::vector<Echo> echo;  // one per prompt, or none

  const Echo* echo_of(size_t choice) const { return echo.empty() ? nullptr : &echo[choice / static_cast<size_t>(request.best_of)]; }
  size_t n_choices() const { return n_prompts * static_cast<size_t>(request.best_of); }
};
std::unique_ptr<AnswerWriter> new_completion_writer(CompletionAnswer answer);

}  // namespace kvik::server::openai
