#pragma once

#include <memory>
#include <vector>

#include "server/chat/tool_reader.h"
#include "server/ollama/request.h"
#include "server/service/generation.h"

namespace kvik::server::ollama {

struct Answer {
  std::shared_ptr<Exchange> exchange;
  Registry::Handle model;
  TextRequest request;
  bool is_chat = false;
  std::unique_ptr<ToolReader> tools;  // null: none
  std::vector<TokenId> prompt;        // for the context that a client may send back; empty: none
};
std::unique_ptr<AnswerWriter> new_writer(Answer answer);

// The answer to a request without a prompt, which only loads or unloads a model.
Json empty_answer(const std::string& model, bool is_chat, std::string_view done_reason);

}  // namespace kvik::server::ollama
