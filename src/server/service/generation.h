#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "server/service/service.h"

namespace kvik::server {

// What is generated for one request: the same choices for each prompt. They are numbered prompt by prompt.
struct GenerationRequest {
  std::vector<std::vector<TokenId>> prompts;
  std::vector<GenerateOptions> choices;
  std::string_view prompt_field = "prompt";  // of the request, to be named if a prompt is too long
};

struct GenerationSummary {
  int prompt_tokens = 0;      // of all prompts, computed or reused
  int completion_tokens = 0;  // of all choices
  int reused_tokens = 0;
  double total_ms = 0, load_ms = 0, prompt_ms = 0, decode_ms = 0;  // load: until the model was there
};

// Writes the answer in the form of one interface. Called on the thread of the server, and only while the client is there.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual bool is_whole() const { return false; }  // done() writes all of it: it may take long, and is called on another thread
  virtual void update(size_t choice, StreamUpdate update) = 0;  // the last one of a choice has its finish
  virtual void done(const GenerationSummary& summary) = 0;      // all choices have ended
  virtual void failed(const ApiError& error) = 0;               // instead of done()
};

// On a thread that may compute. Throws ApiError(429) if the queue of the model is full; what happens later goes to the writer.
void generate(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model, GenerationRequest request,
              std::unique_ptr<AnswerWriter> writer);

// The last update of a text that was made at once.
StreamUpdate whole_update(std::string text, Finish finish);

}  // namespace kvik::server
