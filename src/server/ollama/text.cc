#include <algorithm>
#include <fmt/format.h>

#include "server/chat/logprobs.h"
#include "server/chat/output_format.h"
#include "server/chat/prompt.h"
#include "server/chat/translate_text.h"
#include "server/ollama/answer.h"
#include "server/ollama/ollama.h"

namespace kvik::server::ollama {
namespace {

constexpr size_t kMostTools = 128, kMostContext = 1 << 20;

void refuse(const Fields& body, std::string_view name) {
  const Json* const value = body.find(name);
  if (value == nullptr || value->empty() || *value == "") return;
  throw ApiError(400, "", fmt::format("'{}' is not supported by this server; leave it out", name), name);
}

// What is generated, whichever endpoint asked for it.
struct Prompt {
  std::vector<TokenId> context;  // before the text
  std::string text;
  bool add_special = false;
  std::string source;  // for a model that translates
};

void answer(Service& service, const Registry::Handle& model, const Prompt& prompt, Answer answer) {
  GenerateOptions options = answer.request.options;
  const std::shared_ptr<Exchange> exchange = answer.exchange;
  if (translates_text(*model)) {
    answer.prompt.clear();
    return answer_with_translation(service, exchange, model, {prompt.source}, options, new_writer(std::move(answer)));
  }
  if (!model->continues_prompts()) throw ApiError(400, "", fmt::format("{} does not generate text", model->facts.name));
  std::vector<TokenId> ids = prompt.context;
  const std::vector<TokenId> fresh =
      tokenize_prompt(*model, prompt.text, prompt.add_special && ids.empty(), service.options.max_prompt_bytes);
  ids.insert(ids.end(), fresh.begin(), fresh.end());
  if (!options.max_tokens) options.max_tokens = room_behind(*model, ids.size(), service.options);
  if (options.logprobs && !answer.request.stream)
    check_logprobs(static_cast<size_t>(std::min(*options.max_tokens, room_behind(*model, 0, service.options))), *options.logprobs);
  if (!answer.is_chat) answer.prompt = ids;
  server::generate(service, exchange, model, {{std::move(ids)}, {options}}, new_writer(std::move(answer)));
}

// Without a prompt a request only loads the model, or unloads it with a keep_alive of 0.
void only_load(Service& service, const std::shared_ptr<Exchange>& exchange, const TextRequest& request, bool is_chat) {
  if (request.keep_alive && request.keep_alive->count() == 0) {
    service.registry.unload(request.model);
    return exchange->send(empty_answer(request.model, is_chat, "unload"));
  }
  service.with_model(
      exchange, request.model, [=](const Registry::Handle&) { exchange->send(empty_answer(request.model, is_chat, "load")); },
      request.keep_alive);
}

std::vector<TokenId> read_context(const Fields& body) {
  const Json* const context = body.find("context");
  if (context == nullptr) return {};
  if (context->is_array() && context->empty()) return {};
  if (!is_token_ids(*context) || context->size() > kMostContext) body.fail("context", "a list of token ids");
  return context->get<std::vector<TokenId>>();
}

}  // namespace

void generate(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json json = parse_body(exchange->request.body);
  const Fields body(json);
  TextRequest request = read_text_request(body, service.options);
  request.options.constraint = read_format(body, service.options);
  for (const char* name : {"suffix", "images", "template"}) refuse(body, name);
  const std::string prompt = body.text("prompt").value_or("");
  const std::string system = body.text("system").value_or("");
  const bool raw = body.boolean("raw").value_or(false);
  const std::vector<TokenId> context = read_context(body);
  if (prompt.empty() && context.empty()) return only_load(service, exchange, request, false);
  const auto work = [=, &service](const Registry::Handle& model) {
    Prompt how{context, prompt, raw || !model->has_chat_template(), prompt};
    if (!raw && !translates_text(*model)) {
      Json messages = Json::array();
      if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
      messages.push_back({{"role", "user"}, {"content", prompt}});
      how.text = render_chat(*model, messages, Json::array(), request.template_variables);
    }
    answer(service, model, how, Answer{exchange, model, request, false, nullptr, {}});
  };
  service.with_model(exchange, request.model, work, request.keep_alive);
}

void chat(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json json = parse_body(exchange->request.body);
  const Fields body(json);
  TextRequest request = read_text_request(body, service.options);
  request.options.constraint = read_format(body, service.options);
  std::vector<std::string> names;
  Json tools = Json::array();
  for (const Fields& tool : body.objects("tools", kMostTools)) {
    const std::optional<Fields> function = tool.object("function");
    if (!function) tool.fail("function", "an object");
    names.push_back(function->required_text("name"));
    tools.push_back(tool.json());
  }
  for (const Fields& message : body.objects("messages", 4096)) refuse(message, "images");
  if (!body.has("messages") || body.find("messages")->empty()) return only_load(service, exchange, request, true);
  const Json messages = template_messages(body, "messages");
  const auto work = [=, &service](const Registry::Handle& model) {
    Answer how{exchange, model, request, true, nullptr, {}};
    if (translates_text(*model)) {
      if (!tools.empty()) refuse_for_translation(*model, "tools");
      return answer(service, model, {{}, "", false, last_user_text(messages)}, std::move(how));
    }
    if (!tools.empty()) {
      const std::optional<ToolFormat> format = ToolFormat::derive(model->chat_template);
      if (!format) throw ApiError(400, "", fmt::format("{} does not support tools", model->facts.name));
      how.tools = std::make_unique<ToolReader>(*format, ToolReading{names});
    }
    const std::string text = render_chat(*model, messages, tools, request.template_variables);
    answer(service, model, {{}, text, !model->has_chat_template(), ""}, std::move(how));
  };
  service.with_model(exchange, request.model, work, request.keep_alive);
}

}  // namespace kvik::server::ollama
