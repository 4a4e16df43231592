#include "server/chat/prompt.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvik::server {
namespace {

constexpr size_t kMostMessages = 4096, kMostParts = 256, kMostCalls = 128;
constexpr int kUnknownContext = 4096;  // new tokens of a request that names no limit, if the model has none either

std::string joined_parts(const Fields& message) {
  std::string text;
  for (const Fields& part : message.objects("content", kMostParts)) {
    const std::string type = part.text("type").value_or("text");
    if (type == "refusal") {  // of an earlier answer
      text += part.required_text("refusal");
      continue;
    }
    if (type != "text" && type != "input_text") part.fail("type", "\"text\", the only kind of content that this model reads,");
    text += part.required_text("text");
  }
  return text;
}

// OpenAI writes arguments as a text of JSON, templates read an object.
Json call_of(const Fields& call) {
  const std::optional<Fields> function = call.object("function");
  if (!function) call.fail("function", "an object");
  Json arguments = Json::object();
  if (const Json* const given = function->find("arguments")) {
    arguments = *given;
    if (given->is_string()) {
      const Json parsed = Json::parse(given->get_ref<const std::string&>(), nullptr, false);
      if (parsed.is_object()) arguments = parsed;
    }
  }
  Json result = {{"type", "function"}, {"function", {{"name", function->required_text("name")}, {"arguments", std::move(arguments)}}}};
  if (const std::optional<std::string> id = call.text("id")) result["id"] = *id;
  return result;
}

Json template_message(const Fields& message) {
  Json result = {{"role", message.required_text("role")}};
  if (result["role"] == "developer") result["role"] = "system";
  const Json* const content = message.find("content");
  if (content != nullptr && !content->is_string() && !content->is_array()) message.fail("content", "a text or a list of parts");
  result["content"] = content == nullptr ? "" : content->is_string() ? content->get<std::string>() : joined_parts(message);
  for (const char* name : {"name", "tool_call_id", "tool_name"}) {
    if (const std::optional<std::string> text = message.text(name)) result[name] = *text;
  }
  Json calls = Json::array();
  for (const Fields& call : message.objects("tool_calls", kMostCalls)) calls.push_back(call_of(call));
  if (!calls.empty()) result["tool_calls"] = std::move(calls);
  return result;
}

}  // namespace

Json template_messages(const Fields& body, std::string_view name) {
  const std::vector<Fields> messages = body.objects(name, kMostMessages);
  if (messages.empty()) body.fail(name, "a list of messages");
  Json result = Json::array();
  for (const Fields& message : messages) result.push_back(template_message(message));
  return result;
}

std::string render_chat(const LoadedModel& model, const Json& messages, const Json& tools, const Json& variables) {
  if (!model.has_chat_template()) {
    std::string text;
    for (const Json& message : messages) text += (text.empty() ? "" : "\n\n") + message["content"].get<std::string>();
    return text;
  }
  Json request = variables;
  request["messages"] = messages;
  if (!tools.empty()) request["tools"] = tools;
  request["add_generation_prompt"] = true;
  try {
    return model.chat_template.render(dump(request));
  } catch (const Error& e) {
    // A template refuses what it does not support by raising an exception, such as roles in the wrong order.
    throw ApiError(400, "", fmt::format("the chat template does not accept these messages: {}", e.what()), "messages");
  }
}

std::string last_user_text(const Json& messages) {
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
    if ((*message)["role"] == "user") return (*message)["content"].get<std::string>();
  }
  throw ApiError(400, "", "there is no message of the user to translate", "messages");
}

std::vector<TokenId> tokenize_prompt(const LoadedModel& model, std::string_view text, bool add_special, size_t most_bytes) {
  if (text.size() > most_bytes)
    throw ApiError(413, "", fmt::format("the prompt has {} bytes; this server takes {}", text.size(), most_bytes));
  if (!model.model.has_tokenizer()) throw ApiError(400, "", fmt::format("{} has no tokenizer; send token ids", model.facts.name), "model");
  std::vector<TokenId> ids = model.model.tokenize(text, add_special);
  if (ids.empty()) ids = model.model.start_ids();
  if (ids.empty()) throw ApiError(400, "", "the prompt is empty, and the model has no token to start with");
  return ids;
}

int room_behind(const LoadedModel& model, size_t n_prompt, const ServeOptions& options) {
  int context = model.model.max_positions();
  if (options.load.context > 0) context = context > 0 ? std::min(context, options.load.context) : options.load.context;
  const int most =
      context > 0 ? std::max(1, context - static_cast<int>(std::min<size_t>(n_prompt, static_cast<size_t>(context)))) : kUnknownContext;
  return std::min(most, options.max_tokens);
}

}  // namespace kvik::server
