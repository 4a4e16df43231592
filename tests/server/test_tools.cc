// How calls of tools are found: formats are read from templates, calls from texts that arrive in pieces of any size.
#include <fstream>
#include <gmock/gmock.h>

#include "server/chat/tool_reader.h"
#include "support/paths.h"

namespace kvik::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::optional<ToolFormat> format_of(const std::string& chat_template) {
  const std::filesystem::path file = testing::TempDir() + "tools.jinja";
  std::ofstream(file) << chat_template;
  return ToolFormat::derive(ChatTemplate::from_file(file));
}

constexpr const char* kTagged = R"({%- for m in messages -%}<|{{ m.role }}|>
{% if m.tool_calls %}{% for call in m.tool_calls %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}{% else %}{{ m.content }}{% endif %}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %})";

constexpr const char* kBare = R"({%- for m in messages -%}<|{{ m.role }}|>
{% if m.tool_calls %}{"name": "{{ m.tool_calls[0].function.name }}", "parameters": {{ m.tool_calls[0].function.arguments | tojson }}}{% else %}{{ m.content }}{% endif %}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %})";

constexpr const char* kList = R"({%- for m in messages -%}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]
{%- elif m.tool_calls %}{% if m.tool_calls[0].id | length != 9 %}{{ raise_exception('ids have nine characters') }}{% endif -%}
[TOOL_CALLS][{% for call in m.tool_calls %}{{ '{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + ', "id": "' + call.id + '"}' }}{% endfor %}]</s>
{%- else %}{{ m.content }}</s>{% endif %}{% endfor %})";

TEST(ToolFormat, IsReadFromTheTemplate) {
  const std::optional<ToolFormat> tagged = format_of(kTagged), bare = format_of(kBare), list = format_of(kList);
  ASSERT_TRUE(tagged && bare && list);
  EXPECT_EQ(tagged->prefix, "<tool_call>");
  EXPECT_EQ(tagged->suffix, "</tool_call>");
  EXPECT_EQ(tagged->arguments_key, "arguments");
  EXPECT_EQ(bare->prefix, "");
  EXPECT_EQ(bare->suffix, "");
  EXPECT_EQ(bare->arguments_key, "parameters");
  EXPECT_EQ(list->prefix, "[TOOL_CALLS]");
  EXPECT_TRUE(list->is_list);
  EXPECT_FALSE(format_of("{% for m in messages %}{{ m.content }}{% endfor %}"));
  EXPECT_FALSE(format_of("{{ raise_exception('no') }}"));
}

TEST(ToolFormat, IsReadFromTemplatesOfRealModels) {
  const std::filesystem::path folder = testing_support::source_root().parent_path() / "shared" / "fixtures" / "chat-templates";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the larger test data is not here";
  const std::string special_tokens = (testing_support::source_root() / "models" / "fable").string();
  int n_found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::optional<ToolFormat> format = ToolFormat::derive(ChatTemplate::from_file(entry.path(), special_tokens));
    if (!format) continue;
    ++n_found;
    EXPECT_EQ(format->name_key, "name") << entry.path();
    EXPECT_THAT(format->arguments_key, testing::AnyOf("arguments", "parameters")) << entry.path();
  }
  EXPECT_GE(n_found, 3);
}

struct Read {
  std::string content;
  std::vector<std::string> calls;
};

Read read(const ToolFormat& format, const std::string& text, size_t piece) {
  ToolReader reader(format, {.names = {"weather", "time"}});
  Read all;
  const auto add = [&](const ToolReader::Found& found) {
    all.content += found.content;
    for (const ToolCall& call : found.calls) all.calls.push_back(call.name + call.arguments);
  };
  for (size_t i = 0; i < text.size(); i += piece) add(reader.push(text.substr(i, piece)));
  add(reader.flush());
  return all;
}

TEST(ToolReader, FindsCallsInPiecesOfAnySize) {
  const ToolFormat tagged = *format_of(kTagged), bare = *format_of(kBare), list = *format_of(kList);
  for (size_t piece = 1; piece < 80; ++piece) {
    Read found = read(tagged, "I look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"a } b\"}}\n</tool_call>", piece);
    EXPECT_EQ(found.content, "I look.\n");
    EXPECT_THAT(found.calls, ElementsAre(R"(weather{"city":"a } b"})"));
    found =
        read(tagged, "<tool_call>{\"name\": \"weather\", \"arguments\": {}}</tool_call>\n<tool_call>\n{\"name\": \"time\"}\n</tool_call>\n",
             piece);
    EXPECT_EQ(found.content, "");
    EXPECT_THAT(found.calls, ElementsAre("weather{}", "time{}"));
    found = read(bare, "{\"name\": \"time\", \"parameters\": {\"zone\": 1}}", piece);
    EXPECT_EQ(found.content, "");
    EXPECT_THAT(found.calls, ElementsAre(R"(time{"zone":1})"));
    // The prefix may be a special token, which is no text.
    found = read(list, " [{\"name\": \"time\", \"arguments\": {}}, {\"name\": \"weather\", \"arguments\": {}}]", piece);
    EXPECT_THAT(found.calls, ElementsAre("time{}", "weather{}"));
  }
}

// What is found in a text that a limit has cut.
Read read_cut(const ToolFormat& format, const ToolReading& how, const std::string& text, size_t piece) {
  ToolReader reader(format, how);
  Read all;
  const auto add = [&](const ToolReader::Found& found) {
    all.content += found.content;
    for (const ToolCall& call : found.calls) all.calls.push_back(call.name + call.arguments);
  };
  for (size_t i = 0; i < text.size(); i += piece) add(reader.push(text.substr(i, piece)));
  add(reader.flush(true));
  return all;
}

TEST(ToolReader, ACallThatALimitCutsIsThereAsFarAsItGoes) {
  const ToolFormat tagged = *format_of(kTagged), list = *format_of(kList);
  const ToolReading free = {.names = {"weather", "time"}}, forced = {.names = {"weather"}, .is_forced = true};
  for (size_t piece = 1; piece < 60; ++piece) {
    Read found = read_cut(tagged, free, "I look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"a } b", piece);
    EXPECT_EQ(found.content, "I look.\n");
    EXPECT_THAT(found.calls, ElementsAre(R"(weather{"city": "a } b)"));
    found = read_cut(tagged, free, "<tool_call>{\"name\": \"weather\", \"arguments\"", piece);
    EXPECT_THAT(found.calls, ElementsAre("weather"));
    found = read_cut(list, free, R"([TOOL_CALLS][{"name": "time", "arguments": {"x": 1}}, {"name": "weather", "arguments": {"c)", piece);
    EXPECT_THAT(found.calls, ElementsAre(R"(time{"x":1})", R"(weather{"c)"));
    for (const char* text : {"", "{", R"({"na)", R"({"name": "weat)", R"({"name": "weather")", R"({"name": "weather", "argu)"}) {
      found = read_cut(tagged, forced, text, piece);
      EXPECT_EQ(found.content, "") << text;
      EXPECT_THAT(found.calls, ElementsAre("weather")) << text;
    }
    found = read_cut(tagged, {.names = {"weather", "time"}, .is_forced = true}, R"({"name": "we)", piece);
    EXPECT_EQ(found.content, "");
    EXPECT_THAT(found.calls, IsEmpty());  // nobody knows which
    for (const char* text : {"A text.", "<tool_call>\n{\"name\": \"other\", \"arguments\": {\"a", "<tool_call>{\"na"}) {
      found = read_cut(tagged, free, text, piece);
      EXPECT_EQ(found.content, text);
      EXPECT_THAT(found.calls, IsEmpty());
    }
  }
}

TEST(ToolReader, ArgumentsThatAreATextOfJsonAreReadAsFarAsTheyGo) {
  ToolFormat format{.name_key = "name", .arguments_key = "arguments", .quotes_arguments = true};
  EXPECT_THAT(read_cut(format, {.names = {"time"}}, R"({"name": "time", "arguments": "{\"a\": \"\u00e9)", 3).calls,
              ElementsAre("time{\"a\": \"é"));
  EXPECT_THAT(read_cut(format, {.names = {"time"}}, R"({"name": "time", "arguments": "{\"a\": \)", 3).calls, ElementsAre("time{\"a\": "));
  format.outer_key = "function";
  EXPECT_THAT(read_cut(format, {.names = {"time"}}, R"({"type": "function", "function": {"name": "time", "arguments": "{)", 3).calls,
              ElementsAre("time{"));
}

TEST(ToolReader, FurtherCallsAreDroppedIfOnlyOneIsWanted) {
  const ToolFormat tagged = *format_of(kTagged), list = *format_of(kList);
  const ToolReading one = {.names = {"weather", "time"}, .only_one = true};
  const std::string call = "<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>";
  EXPECT_THAT(read_cut(tagged, one, call + "\n" + call, 7).calls, ElementsAre("time{}"));
  EXPECT_THAT(read_cut(list, one, R"([{"name": "time", "arguments": {}}, {"name": "weather", "arguments": {}}])", 7).calls,
              ElementsAre("time{}"));
}

TEST(ToolReader, TextThatIsNoCallStaysAsItIs) {
  const ToolFormat tagged = *format_of(kTagged), bare = *format_of(kBare);
  for (const char* text :
       {"A text.", "<tool_call", "<tool_call>", "<tool_call>\n{\"name\": \"weather\"", "<tool_call> no JSON </tool_call>", "a < b <tool",
        "<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call>", "<tool_call>{\"x\": }</tool_call>", "  ",
        "{\"name\": \"other\"}", "[1, 2]"}) {
    for (size_t piece = 1; piece < 40; ++piece) {
      const Read found = read(tagged, text, piece);
      EXPECT_EQ(found.content, text);
      EXPECT_THAT(found.calls, IsEmpty());
      EXPECT_EQ(read(bare, text, piece).content, text);
    }
  }
  const std::string deep = "<tool_call>" + std::string(100'000, '[');
  EXPECT_EQ(read(tagged, deep, 1000).content, deep);
}

TEST(ToolFormat, TheSchemaOfACallIsItsForm) {
  const std::vector<Json> functions = {{{"name", "time"}}, {{"name", "weather"}, {"parameters", {{"type", "object"}}}}};
  const Json one = format_of(kTagged)->schema_of({functions[0]});
  EXPECT_EQ(one["properties"]["name"]["const"], "time");
  EXPECT_EQ(format_of(kBare)->schema_of(functions)["anyOf"].size(), 2);
  EXPECT_EQ(format_of(kList)->schema_of(functions)["type"], "array");
}

// Their place in the schema of a call is another one.
TEST(ToolFormat, ReferencesOfArgumentsAreThoseOfTheirTool) {
  const auto tool = [](const char* name, int value) {
    return Json{{"name", name},
                {"parameters",
                 {{"type", "object"},
                  {"properties", {{"x", {{"$ref", "#/$defs/x"}}}}},
                  {"required", {"x"}},
                  {"$defs", {{"x", {{"const", value}}}}}}}};
  };
  for (const char* chat_template : {kTagged, kBare, kList}) {
    const std::optional<ToolFormat> format = format_of(chat_template);
    const Json one = format->schema_of({tool("a", 1)}), two = format->schema_of({tool("a", 1), tool("b", 2)});
    for (const Json* schema : {&one, &two}) {
      int n_found = 0;
      const Json flat = schema->flatten();
      for (const auto& [place, value] : flat.items()) {
        if (!place.ends_with("/$ref")) continue;
        const Json target = schema->at(Json::json_pointer(value.get<std::string>().substr(1)));
        EXPECT_EQ(target["const"], ++n_found);
      }
      EXPECT_EQ(n_found, schema == &one ? 1 : 2);
      EXPECT_NO_THROW(Constraint::json_schema(dump(*schema)));
    }
  }
}

}  // namespace
}  // namespace kvik::server
