#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/template.h"

namespace kvik::text {

// The input of a chat template, as JSON values.
struct ChatRequest {
  jinja::Value messages = jinja::Value::list({});
  jinja::Value tools = jinja::Value::none();  // none if there are no tools
  jinja::Value documents = jinja::Value::none();
  bool add_generation_prompt = false;
  // More variables; they override the special tokens.
  std::vector<std::pair<std::string, jinja::Value>> variables;
  // One of names(), or the text of a template; empty: "tool_use" if there are tools and such a template, otherwise "default".
  std::string chosen;
  jinja::Clock clock = jinja::system_clock;
};

// The chat templates of a model and the strings of its special tokens. Immutable: any thread may render.
class ChatTemplate {
 public:
  // Reads chat_template.jinja and additional_chat_templates/, else chat_template.json, else `chat_template` of tokenizer_config.json;
  // special tokens from tokenizer_config.json and special_tokens_map.json. Without a template, the result is empty(). If one
  // does not compile, fault() says why and render() throws: a model can run without its template.
  static ChatTemplate load(const std::filesystem::path& folder);
  // Only the template in the file, with the special tokens of `folder` unless that is empty.
  static ChatTemplate from_file(const std::filesystem::path& file, const std::filesystem::path& folder = {});
  static ChatTemplate from_text(std::string_view source);

  bool empty() const { return templates_.empty(); }
  std::vector<std::string> names() const;
  // The error of the first template that does not compile; empty if all do.
  std::string fault() const;
  // "bos_token" and so on, the variables of the templates.
  const std::vector<std::pair<std::string, jinja::Value>>& special_tokens() const { return special_tokens_; }

  // Throws Error; the argument of a template's raise_exception() is the whole message.
  std::string render(const ChatRequest& request, const jinja::Limits& limits = {}) const;
  // One JSON object {"messages": …, "tools": …, "add_generation_prompt": …, …}; other fields are variables, as are
  // those of "extra"; a variable "now" sets the clock.
  std::string render_json(std::string_view json, const jinja::Limits& limits = {}) const;

 private:
  struct Compiled {
    std::optional<jinja::Template> program;
    std::string fault;  // if there is no program
  };

  const Compiled& choose(const ChatRequest& request) const;
  void add(const std::string& name, std::string_view source, const std::string& origin);
  void read_templates(const std::filesystem::path& folder);
  void read_template_field(const jinja::Value& field, const std::string& origin);
  void read_special_tokens(const std::filesystem::path& folder);
  void add_special_tokens(const jinja::Dict& config);
  void set_special_token(const std::string& name, jinja::Value value);

  std::map<std::string, Compiled, std::less<>> templates_;
  std::vector<std::pair<std::string, jinja::Value>> special_tokens_;
};

// The fields of a JSON object as a request.
ChatRequest parse_chat_request(std::string_view json);

}  // namespace kvik::text
