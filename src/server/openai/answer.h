#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/chat/tool_reader.h"
#include "server/openai/request.h"
#include "server/service/generation.h"

namespace kvik::server::openai {

// What every object of an answer begins with.
struct Envelope {
  Envelope(const LoadedModel& model, std::string_view id_prefix);
  Json json(std::string_view object) const;

  std::string id;
  int64_t created;  // Unix time
  std::string model;
  std::string fingerprint;
};

// One event of a stream.
std::string event(const Json& json);
Json usage_json(const GenerationSummary& summary);
// Ends a stream, after the object (as an Envelope begins it) that tells the usage, unless `usage` is null.
void write_end(Exchange& exchange, Json last, const GenerationSummary* usage);
// In a stream, an error is an event.
void write_failure(Exchange& exchange, bool has_begun, const ApiError& error);

// How the text of a chat is read; null if there are no tools.
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
    std::string text;                      // what the texts of a prompt begin with
    std::vector<GeneratedToken> logprobs;  // of the prompt, if they are asked for; the first token has none
  };
  size_t n_prompts = 1;
  std::vector<Echo> echo;  // one per prompt, or none

  const Echo* echo_of(size_t choice) const { return echo.empty() ? nullptr : &echo[choice / static_cast<size_t>(request.best_of)]; }
  size_t n_choices() const { return n_prompts * static_cast<size_t>(request.best_of); }
};
std::unique_ptr<AnswerWriter> new_completion_writer(CompletionAnswer answer);

}  // namespace kvik::server::openai
