#pragma once

#include <string>
#include <vector>

#include "server/json/fields.h"
#include "server/service/registry.h"

namespace kvik::server {

// Messages as templates expect them: contents are strings (parts are joined), arguments of calls are objects. Throws ApiError(400) for
// malformed messages and for parts that are not text.
Json template_messages(const Fields& body, std::string_view name);

// The text that a model continues: the messages in its chat template, or joined by blank lines if it has none.
std::string render_chat(const LoadedModel& model, const Json& messages, const Json& tools, const Json& variables = Json::object());

// Of the last message with the role "user"; throws ApiError(400) if there is none.
std::string last_user_text(const Json& messages);

// The tokens of a prompt, not empty. Throws ApiError(400) if the text is too long. `add_special`: false for rendered templates.
std::vector<TokenId> tokenize_prompt(const LoadedModel& model, std::string_view text, bool add_special, size_t most_bytes);

// How many tokens fit after a prompt: the limit of a request that does not set one.
int room_behind(const LoadedModel& model, size_t n_prompt, const ServeOptions& options);

}  // namespace kvik::server
