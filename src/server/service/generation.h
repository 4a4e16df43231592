#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "server/service/service.h"

namespace kvik::server {

// The generations of one request: the same number of choices for each prompt, numbered prompt by prompt.
struct GenerationRequest {
  std::vector<std::vector<TokenId>> prompts;
  std::vector<GenerateOptions> choices;
  std::string_view prompt_field = "prompt";  // named in the error if a prompt is too long
};

struct GenerationSummary {
  int prompt_tokens = 0;      // of all prompts, computed or reused
  int completion_tokens = 0;  // of all choices
  int reused_tokens = 0;
  double total_ms = 0, load_ms = 0, prompt_ms = 0, decode_ms = 0;  // load: waiting for the model
};

// Writes the answer in the format of one API. Called on the thread of the server, and only while the client is connected.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual bool is_whole() const { return false; }  // done() writes the whole answer, on another thread, because that may be slow
  virtual void update(size_t choice, StreamUpdate update) = 0;  // the last one of a choice has its finish
  virtual void done(const GenerationSummary& summary) = 0;      // all choices have ended
  virtual void failed(const ApiError& error) = 0;               // instead of done()
};

// Not on the thread of the server. Throws ApiError(429) if the queue of the model is full; later results and errors go to the writer.
void generate(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model, GenerationRequest request,
              std::unique_ptr<AnswerWriter> writer);

// The only update of a text that is complete.
StreamUpdate whole_update(std::string text, Finish finish);

}  // namespace kvik::server
