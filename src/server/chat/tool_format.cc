#include "server/chat/tool_format.h"

#include <algorithm>
#include <fmt/format.h>

#include "server/chat/json_extent.h"

namespace kvik::server {
namespace {

// A call that no template contains by itself. Some templates demand ids of nine characters.
constexpr const char* kName = "kvikprobetool";
constexpr const char* kKey = "kvikprobekey";
constexpr const char* kValue = "kvikprobevalue";
constexpr const char* kQuestion = "kvikprobequestion";

Json probe_tool() {
  return {{"type", "function"},
          {"function",
           {{"name", kName},
            {"description", "A tool."},
            {"parameters",
             {{"type", "object"}, {"properties", {{kKey, {{"type", "string"}, {"description", "A text."}}}}}, {"required", {kKey}}}}}}};
}

Json probe_messages(bool with_content) {
  Json call = {{"id", "kvikprobe"}, {"type", "function"}, {"function", {{"name", kName}, {"arguments", {{kKey, kValue}}}}}};
  Json answer = {{"role", "assistant"}, {"tool_calls", Json::array({std::move(call)})}};
  if (with_content) answer["content"] = "";
  return Json::array({{{"role", "user"}, {"content", kQuestion}}, std::move(answer)});
}

// What the template writes for an answer that is a call; empty if it cannot.
std::string rendered_call(const ChatTemplate& chat_template) {
  for (const bool with_content : {true, false}) {
    try {
      const Json messages = probe_messages(with_content);
      const Json request = {{"messages", messages}, {"tools", Json::array({probe_tool()})}, {"add_generation_prompt", false}};
      const Json question = {
          {"messages", Json::array({messages[0]})}, {"tools", Json::array({probe_tool()})}, {"add_generation_prompt", true}};
      const std::string with_answer = chat_template.render(dump(request)), before = chat_template.render(dump(question));
      // The answer begins where the prompt for it ends. Some templates add more to the prompt than to the turn, so they may part earlier.
      const auto parting = std::ranges::mismatch(with_answer, before).in1;
      const std::string answer(parting, with_answer.end());
      if (answer.find(kName) != std::string::npos && answer.find(kValue) != std::string::npos) return answer;
    } catch (const Error&) {}  // the other form, or none
  }
  return {};
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* kSpaces = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpaces);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// Which keys of the object have the name and the arguments of the call.
bool read_keys(const Json& object, ToolFormat& format) {
  for (const auto& [key, value] : object.items()) {
    if (value == kName) format.name_key = key;
    if (value.is_object() && value.contains(kKey)) format.arguments_key = key;
    if (value.is_string() && value.get_ref<const std::string&>().find(kValue) != std::string::npos) {
      format.arguments_key = key;
      format.quotes_arguments = true;
    }
  }
  return !format.name_key.empty() && !format.arguments_key.empty();
}

bool read_shape(const Json& value, ToolFormat& format) {
  format.is_list = value.is_array();
  const Json& call = format.is_list && !value.empty() ? value.front() : value;
  if (!call.is_object()) return false;
  if (read_keys(call, format)) return true;
  for (const auto& [key, inner] : call.items()) {
    format.outer_key = key;
    if (inner.is_object() && read_keys(inner, format)) return true;
  }
  return false;
}

std::string pointer_to(const char* keyword, std::string name) {
  for (size_t at = 0; (at = name.find_first_of("~/", at)) != std::string::npos; at += 2) name.replace(at, 1, name[at] == '~' ? "~0" : "~1");
  return fmt::format("/{}/{}", keyword, name);
}

// References within a schema ("#/$defs/item"), which is now at this place of another.
void move_references(Json& schema, const std::string& place) {
  if (schema.is_object()) {
    if (const auto reference = schema.find("$ref"); reference != schema.end() && reference->is_string()) {
      const auto text = reference->get<std::string>();
      if (text == "#" || text.starts_with("#/")) *reference = "#" + place + text.substr(1);
    }
  }
  if (!schema.is_structured()) return;
  for (auto& item : schema) move_references(item, place);
}

}  // namespace

std::optional<ToolFormat> ToolFormat::derive(const ChatTemplate& chat_template) {
  if (chat_template.empty() || !chat_template.fault().empty()) return std::nullopt;
  const std::string answer = rendered_call(chat_template);
  // The JSON begins at the first bracket from which a whole value can be read that contains the call.
  for (size_t begin = answer.find_first_of("{["); begin != std::string::npos; begin = answer.find_first_of("{[", begin + 1)) {
    const std::string_view rest = std::string_view(answer).substr(begin);
    JsonExtent extent;
    if (!extent.extend(rest)) continue;
    const Json value = Json::parse(rest.substr(0, extent.size()), nullptr, false);
    ToolFormat format;
    if (value.is_discarded() || !read_shape(value, format)) continue;
    format.prefix = trimmed(std::string_view(answer).substr(0, begin));
    // The suffix ends with its line: what follows ends the turn.
    std::string_view after = rest.substr(extent.size());
    const size_t start = after.find_first_not_of(" \t\r\n");
    after = start == std::string_view::npos ? std::string_view() : after.substr(start);
    const size_t end = after.starts_with('<') ? after.find('>') : std::string_view::npos;
    if (after.starts_with("</") && end != std::string_view::npos && !format.prefix.empty()) format.suffix = after.substr(0, end + 1);
    return format;
  }
  return std::nullopt;
}

Json ToolFormat::schema_of(const std::vector<Json>& functions) const {
  const std::string outer = outer_key.empty() ? "" : pointer_to("properties", outer_key);
  Json any = Json::array();
  for (const Json& function : functions) {
    Json arguments =
        function.contains("parameters") && function["parameters"].is_object() ? function["parameters"] : Json{{"type", "object"}};
    if (!arguments.contains("type")) arguments["type"] = "object";  // {} says nothing, but arguments have names
    const std::string option = functions.size() == 1 ? "" : fmt::format("/anyOf/{}", any.size());
    move_references(arguments, (is_list ? "/items" : "") + option + outer + pointer_to("properties", arguments_key));
    Json call = {{"type", "object"},
                 {"properties", {{name_key, {{"const", function["name"]}}}, {arguments_key, std::move(arguments)}}},
                 {"required", {name_key, arguments_key}},
                 {"additionalProperties", false}};
    if (!outer_key.empty())
      call = {
          {"type", "object"}, {"properties", {{outer_key, std::move(call)}}}, {"required", {outer_key}}, {"additionalProperties", false}};
    any.push_back(std::move(call));
  }
  Json one = any.size() == 1 ? any.front() : Json{{"anyOf", std::move(any)}};
  if (!is_list) return one;
  return {{"type", "array"}, {"items", std::move(one)}, {"minItems", 1}, {"maxItems", 1}};
}

std::optional<std::vector<ToolCall>> calls_in(const Json& value, const ToolFormat& format, const std::vector<std::string>& names) {
  const Json list = value.is_array() ? value : Json::array({value});
  std::vector<ToolCall> calls;
  for (const Json& each : list) {
    if (!each.is_object()) return std::nullopt;
    const Json& call = !format.outer_key.empty() && each.contains(format.outer_key) ? each[format.outer_key] : each;
    if (!call.is_object() || !call.contains(format.name_key) || !call[format.name_key].is_string()) return std::nullopt;
    const auto name = call[format.name_key].get<std::string>();
    if (std::ranges::find(names, name) == names.end()) return std::nullopt;
    const Json arguments = call.contains(format.arguments_key) ? call[format.arguments_key] : Json::object();
    calls.push_back({name, arguments.is_string() ? arguments.get<std::string>() : dump(arguments)});
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

}  // namespace kvik::server
