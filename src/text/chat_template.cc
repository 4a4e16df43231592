#include "text/chat_template.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/mapped_file.h"
#include "kvik/error.h"
#include "text/template/json.h"

namespace kvik::text {
namespace {

using jinja::Dict;
using jinja::Kind;
using jinja::Value;
namespace fs = std::filesystem;

std::optional<Value> read_json_if_there(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  Value value = jinja::from_json(MappedFile::open(path)->text(), path.string());
  if (!value.is(Kind::kDict)) throw Error(Code::kBadModel, fmt::format("{}: expected a JSON object, found another value", path.string()));
  return value;
}

// A token is a string or {"content": string, …}.
std::optional<std::string> token_text(const Value& token) {
  if (token.is_text()) return token.as_text();
  if (!token.is(Kind::kDict)) return std::nullopt;
  const Value* content = token.as_dict().find("content");
  return content != nullptr && content->is_text() ? std::optional(content->as_text()) : std::nullopt;
}

std::optional<Value> token_list(const Value& tokens) {
  if (!tokens.is(Kind::kList)) return std::nullopt;
  std::vector<Value> texts;
  for (const Value& token : tokens.as_items())
    if (std::optional<std::string> text = token_text(token)) texts.push_back(Value::text(std::move(*text)));
  return Value::list(std::move(texts));
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

bool is_variable_name(std::string_view name) { return name != "extra" && name != "chat_template_kwargs"; }

void set_variable(ChatRequest& request, const std::string& name, const Value& value) {
  if (name == "now" && value.is_text()) {
    const std::optional<jinja::Moment> moment = jinja::parse_moment(value.as_text());
    if (!moment) throw Error(Code::kBadArgument, fmt::format("\"now\" is '{}'; expected a time like 2025-03-04T15:09:26", value.as_text()));
    request.clock = [moment = *moment] { return moment; };
    return;
  }
  request.variables.emplace_back(name, value);
}

void set_field(ChatRequest& request, const std::string& name, const Value& value) {
  if (name == "messages") {
    request.messages = value;
  } else if (name == "tools") {
    request.tools = value;
  } else if (name == "documents") {
    request.documents = value;
  } else if (name == "add_generation_prompt" && (value.is(Kind::kBool) || value.is_none())) {
    request.add_generation_prompt = value.is(Kind::kBool) && value.as_bool();
  } else if (name == "chat_template" && value.is_text()) {
    request.chosen = value.as_text();
  } else if (!is_variable_name(name) && value.is(Kind::kDict)) {
    for (const Dict::Entry& entry : value.as_dict().entries()) set_variable(request, entry.key.as_text(), entry.value);
  } else if (is_variable_name(name) || !value.is_none()) {
    set_variable(request, name, value);
  }
}

}  // namespace

ChatTemplate ChatTemplate::load(const fs::path& folder) {
  ChatTemplate chat;
  chat.read_templates(folder);
  chat.read_special_tokens(folder);
  return chat;
}

ChatTemplate ChatTemplate::from_file(const fs::path& file, const fs::path& folder) {
  ChatTemplate chat;
  chat.add("default", MappedFile::open(file)->text(), file.string());
  if (!folder.empty()) chat.read_special_tokens(folder);
  return chat;
}

ChatTemplate ChatTemplate::from_text(std::string_view source) {
  ChatTemplate chat;
  chat.templates_.emplace("default", Compiled{jinja::Template(source), ""});
  return chat;
}

std::vector<std::string> ChatTemplate::names() const {
  std::vector<std::string> names;
  for (const auto& [name, compiled] : templates_) names.push_back(name);
  return names;
}

void ChatTemplate::add(const std::string& name, std::string_view source, const std::string& origin) {
  Compiled compiled;
  try {
    compiled.program.emplace(source);
  } catch (const Error& e) { compiled.fault = fmt::format("{}: {}", origin, e.what()); }
  templates_.insert_or_assign(name, std::move(compiled));
}

std::string ChatTemplate::fault() const {
  for (const auto& [name, compiled] : templates_)
    if (!compiled.program) return compiled.fault;
  return {};
}

void ChatTemplate::read_templates(const fs::path& folder) {
  std::error_code ignored;
  const fs::path file = folder / "chat_template.jinja", others = folder / "additional_chat_templates";
  if (fs::is_regular_file(file, ignored)) add("default", MappedFile::open(file)->text(), file.string());
  if (fs::is_directory(others, ignored))
    for (const fs::directory_entry& entry : fs::directory_iterator(others))
      if (entry.path().extension() == ".jinja" && entry.is_regular_file(ignored))
        add(entry.path().stem().string(), MappedFile::open(entry.path())->text(), entry.path().string());
  if (!templates_.empty()) return;
  for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
    const fs::path path = folder / name;
    const std::optional<Value> config = read_json_if_there(path);
    const Value* field = config ? config->as_dict().find("chat_template") : nullptr;
    if (field == nullptr || field->is_none()) continue;
    read_template_field(*field, path.string());
    return;
  }
}

// A string, a list of {"name", "template"}, or an object of strings by name.
void ChatTemplate::read_template_field(const Value& field, const std::string& origin) {
  if (field.is_text()) return add("default", field.as_text(), origin);
  const auto add_named = [&](const Value* name, const Value* source) {
    if (name == nullptr || source == nullptr || !name->is_text() || !source->is_text())
      throw Error(Code::kBadModel, fmt::format("{}: a chat template needs a name and a string", origin));
    add(name->as_text(), source->as_text(), origin);
  };
  if (field.is(Kind::kDict)) {
    for (const Dict::Entry& entry : field.as_dict().entries()) add_named(&entry.key, &entry.value);
    return;
  }
  if (!field.is(Kind::kList))
    throw Error(Code::kBadModel, fmt::format("{}: \"chat_template\" is neither a string nor a list of templates", origin));
  for (const Value& item : field.as_items()) {
    const Dict* named = item.is(Kind::kDict) ? &item.as_dict() : nullptr;
    add_named(named == nullptr ? nullptr : named->find("name"), named == nullptr ? nullptr : named->find("template"));
  }
}

void ChatTemplate::read_special_tokens(const fs::path& folder) {
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"})
    if (const std::optional<Value> config = read_json_if_there(folder / name)) add_special_tokens(config->as_dict());
}

void ChatTemplate::add_special_tokens(const Dict& config) {
  for (const Dict::Entry& entry : config.entries()) {
    const std::string& name = entry.key.as_text();
    if (name.ends_with("_token")) {
      if (std::optional<std::string> text = token_text(entry.value)) set_special_token(name, Value::text(std::move(*text)));
    } else if (name == "additional_special_tokens") {
      if (std::optional<Value> list = token_list(entry.value)) set_special_token(name, std::move(*list));
    } else if (name == "extra_special_tokens" && entry.value.is(Kind::kDict)) {
      add_special_tokens(entry.value.as_dict());
    }
  }
}

void ChatTemplate::set_special_token(const std::string& name, Value value) {
  const auto it = std::find_if(special_tokens_.begin(), special_tokens_.end(), [&](const auto& pair) { return pair.first == name; });
  if (it != special_tokens_.end())
    it->second = std::move(value);
  else
    special_tokens_.emplace_back(name, std::move(value));
}

const ChatTemplate::Compiled& ChatTemplate::choose(const ChatRequest& request) const {
  if (templates_.empty()) throw Error(Code::kBadArgument, "this model has no chat template; pass one, or use a plain text prompt");
  const auto tool_use = templates_.find("tool_use");
  if (!request.tools.is_none() && tool_use != templates_.end()) return tool_use->second;
  const auto fallback = templates_.find("default");
  if (fallback != templates_.end()) return fallback->second;
  if (templates_.size() == 1) return templates_.begin()->second;
  throw Error(Code::kBadArgument, fmt::format("this model has several chat templates and no default; choose one of {}", joined(names())));
}

std::string ChatTemplate::render(const ChatRequest& request, const jinja::Limits& limits) const {
  Dict variables;
  for (const auto& [name, value] : special_tokens_) variables.set(name, value);
  variables.set("messages", request.messages);
  variables.set("tools", request.tools);
  variables.set("documents", request.documents);
  variables.set("add_generation_prompt", Value::boolean(request.add_generation_prompt));
  for (const auto& [name, value] : request.variables) variables.set(name, value);
  const auto named = templates_.find(request.chosen);
  if (!request.chosen.empty() && named == templates_.end()) return jinja::Template(request.chosen).render(variables, request.clock, limits);
  const Compiled& chosen = named != templates_.end() ? named->second : choose(request);
  if (!chosen.program) throw Error(Code::kBadModel, chosen.fault);
  return chosen.program->render(variables, request.clock, limits);
}

std::string ChatTemplate::render_json(std::string_view json, const jinja::Limits& limits) const {
  return render(parse_chat_request(json), limits);
}

ChatRequest parse_chat_request(std::string_view json) {
  const Value value = jinja::from_json(json, "the request");
  if (!value.is(Kind::kDict)) throw Error(Code::kBadArgument, "the request is not a JSON object; expected {\"messages\": [...], ...}");
  if (value.as_dict().find("messages") == nullptr) throw Error(Code::kBadArgument, "the request has no \"messages\"");
  ChatRequest request;
  for (const Dict::Entry& entry : value.as_dict().entries()) set_field(request, entry.key.as_text(), entry.value);
  return request;
}

}  // namespace kvik::text
