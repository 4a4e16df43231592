#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "server/chat/logprobs.h"
#include "server/chat/output_format.h"
#include "server/chat/prompt.h"
#include "server/chat/translate_text.h"
#include "server/openai/answer.h"
#include "server/openai/openai.h"

namespace kvik::server::openai {
namespace {

constexpr size_t kMostTools = 128;

struct ChatRequest {
  TextRequest text;
  Json messages;
  Json tools = Json::array();  // as the client sent them; none if they must not be used
  ToolReading reading;
  std::vector<Json> forced;  // functions, one of which must be called; empty: as the model likes
  Json template_variables = Json::object();
};

// {"type": "function", "function": {"name": …}}
std::string chosen_name(const Fields& choice) {
  const std::optional<Fields> function = choice.object("function");
  if (!function) choice.fail("function", "an object");
  return function->required_text("name");
}

// Some of the tools, one of which must be called or may be called.
void read_allowed_tools(const Fields& choice, ChatRequest& request) {
  const std::optional<Fields> allowed = choice.object("allowed_tools");
  if (!allowed) choice.fail("allowed_tools", "an object");
  std::vector<std::string> names;
  for (const Fields& tool : allowed->objects("tools", kMostTools)) {
    names.push_back(chosen_name(tool));
    if (std::ranges::find(request.reading.names, names.back()) == request.reading.names.end()) tool.fail("function", "one of the tools");
  }
  if (names.empty()) allowed->fail("tools", "a list of tools");
  Json tools = Json::array();
  for (const Json& tool : request.tools) {
    if (std::ranges::find(names, tool["function"]["name"].get<std::string>()) != names.end()) tools.push_back(tool);
  }
  request.tools = std::move(tools);
  request.reading.names = std::move(names);
  const std::string mode = allowed->required_text("mode");
  if (mode != "auto" && mode != "required") allowed->fail("mode", "\"auto\" or \"required\"");
  if (mode == "auto") return;
  for (const Json& tool : request.tools) request.forced.push_back(tool["function"]);
}

void read_tools(const Fields& body, ChatRequest& request) {
  std::vector<Json> functions;
  for (const Fields& tool : body.objects("tools", kMostTools)) {
    if (tool.text("type").value_or("function") != "function") tool.fail("type", "\"function\"");
    const std::optional<Fields> function = tool.object("function");
    if (!function) tool.fail("function", "an object");
    request.reading.names.push_back(function->required_text("name"));
    const std::optional<Fields> parameters = function->object("parameters");
    const Json* const kind = parameters ? parameters->find("type") : nullptr;
    if (kind != nullptr && kind->is_string() && *kind != "object") parameters->fail("type", "\"object\", because arguments have names,");
    functions.push_back(function->json());
  }
  if (!functions.empty()) request.tools = *body.find("tools");
  request.reading.only_one = !body.boolean("parallel_tool_calls").value_or(true);
  const Json* const choice = body.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return;
  if (*choice == "none") {
    request.tools = Json::array();
    request.reading.names.clear();
  } else if (*choice == "required") {
    if (functions.empty()) body.fail("tools", "a list of tools, because 'tool_choice' is \"required\",");
    request.forced = functions;
  } else if (choice->is_object() && choice->value("type", Json()) == "allowed_tools") {
    read_allowed_tools(*body.object("tool_choice"), request);
  } else if (choice->is_object()) {
    const std::string name = chosen_name(*body.object("tool_choice"));
    std::ranges::copy_if(functions, std::back_inserter(request.forced), [&](const Json& function) { return function["name"] == name; });
    if (request.forced.empty()) body.fail("tool_choice", "the name of one of the tools");
  } else {
    body.fail("tool_choice", "\"none\", \"auto\", \"required\" or a function");
  }
  if (request.forced.empty()) return;
  request.reading.is_forced = true;
  request.reading.names.clear();
  for (const Json& function : request.forced) request.reading.names.push_back(function["name"]);
}

ChatRequest read_chat_request(const Fields& body, const ServeOptions& options) {
  ChatRequest request;
  request.text = read_text_request(body, options);
  request.messages = template_messages(body, "messages");
  refuse(body, {"functions", "function_call", "audio", "prediction", "web_search_options"});
  for (const std::string& kind : body.texts("modalities", 8)) {
    if (kind != "text") body.fail("modalities", "[\"text\"]");
  }
  read_tools(body, request);
  request.text.options.constraint = read_response_format(body, options);
  if (const std::optional<std::string> effort = body.text("reasoning_effort")) {
    request.template_variables["reasoning_effort"] = *effort;
    if (*effort == "none") request.template_variables["enable_thinking"] = false;
  }
  if (const std::optional<Fields> variables = body.object("chat_template_kwargs")) request.template_variables.update(variables->json());
  return request;
}

void answer(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model, ChatRequest request) {
  ChatAnswer how{exchange, model, request.text, {}};
  if (translates_text(*model)) {
    refuse_choices_of_translation(*model, request.text);
    if (!request.tools.empty()) refuse_for_translation(*model, "tools");
    return answer_with_translation(service, exchange, model, {last_user_text(request.messages)}, request.text.options,
                                   new_chat_writer(std::move(how)));
  }
  if (!model->continues_prompts()) throw ApiError(400, "", fmt::format("{} does not generate text", model->facts.name), "model");
  std::string prompt = render_chat(*model, request.messages, request.tools, request.template_variables);
  if (!request.tools.empty()) {
    const std::optional<ToolFormat> format = ToolFormat::derive(model->chat_template);
    if (!format)
      throw ApiError(400, "unsupported_parameter", fmt::format("the chat template of {} has no tools", model->facts.name), "tools");
    for (int i = 0; i < request.text.n; ++i) how.tools.push_back(std::make_unique<ToolReader>(*format, request.reading));
    if (!request.forced.empty()) {  // the call has begun, and what follows is its JSON
      prompt += format->prefix;
      request.text.options.constraint = compile_schema(format->schema_of(request.forced), "tools", service.options);
    }
  }
  GenerationRequest generation{.prompt_field = "messages"};
  generation.prompts = {tokenize_prompt(*model, prompt, !model->has_chat_template(), service.options.max_prompt_bytes)};
  if (!request.text.options.max_tokens)
    request.text.options.max_tokens = room_behind(*model, generation.prompts[0].size(), service.options);
  generation.choices = request.text.choices();
  const int n_new = std::min(*request.text.options.max_tokens, room_behind(*model, 0, service.options));
  if (request.text.shows_logprobs && !request.text.stream)
    check_logprobs(generation.choices.size() * static_cast<size_t>(n_new), *request.text.options.logprobs);
  generate(service, exchange, model, std::move(generation), new_chat_writer(std::move(how)));
}

}  // namespace

void chat_completions(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json json = parse_body(exchange->request.body);
  const Fields body(json);
  ChatRequest request = read_chat_request(body, service.options);
  if (request.text.best_of > request.text.n) refuse(body, {"best_of"});
  if (const std::optional<std::string> user = body.text("user")) exchange->user = *user;
  const std::string name = request.text.model;
  service.with_model(exchange, name, [&service, exchange, request = std::move(request)](const Registry::Handle& model) {
    answer(service, exchange, model, request);
  });
}

}  // namespace kvik::server::openai
