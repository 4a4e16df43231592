#include <fstream>
#include <gtest/gtest.h>
#include <string>

#include "base/json.h"
#include "kvik/error.h"
#include "support/paths.h"
#include "text/chat_template.h"

namespace kvik::text {
namespace {

using testing_support::shared;
using testing_support::TemporaryFolder;

constexpr std::string_view kHello = R"({"messages": [{"role": "user", "content": "Hello"}], "add_generation_prompt": true)";

std::string hello(const std::string& more = "") { return std::string(kHello) + (more.empty() ? "" : ", " + more) + "}"; }

TEST(ChatTemplate, TemplateFileOfAFolderIsRendered) {
  const TemporaryFolder folder;
  folder.write("chat_template.jinja",
               "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt "
               "%}>{% endif %}");
  folder.write(
      "tokenizer_config.json",
      R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "add_bos_token": true, "chat_template": "other"})");
  EXPECT_EQ(ChatTemplate::load(folder.path()).render_json(hello()), "<s>user: Hello</s>>");
  EXPECT_EQ(ChatTemplate::load(folder.path()).render_json(hello(R"("bos_token": "^")")), "^user: Hello</s>>");
}

TEST(ChatTemplate, TemplateIsSelectedByNameOrTools) {
  const TemporaryFolder folder;
  folder.write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools {{ tools | length }}"},
                                           {"name": "rag", "template": "rag"}]})");
  const ChatTemplate chat = ChatTemplate::load(folder.path());
  EXPECT_EQ(chat.render_json(hello()), "plain");
  EXPECT_EQ(chat.render_json(hello(R"("tools": null)")), "plain");
  EXPECT_EQ(chat.render_json(hello(R"("tools": [{}])")), "tools 1");
  EXPECT_EQ(chat.render_json(hello(R"("chat_template": "rag")")), "rag");
  EXPECT_EQ(chat.render_json(hello(R"("chat_template": "{{ messages[0].content }}")")), "Hello");
  EXPECT_EQ(chat.names(), (std::vector<std::string>{"default", "rag", "tool_use"}));
}

TEST(ChatTemplate, AdditionalTemplatesAndTheOldJsonFileAreRead) {
  const TemporaryFolder folder, old_folder;
  folder.write("chat_template.jinja", "plain");
  std::filesystem::create_directory(folder.path() / "additional_chat_templates");
  folder.write("additional_chat_templates/tool_use.jinja", "tools");
  EXPECT_EQ(ChatTemplate::load(folder.path()).render_json(hello(R"("tools": [])")), "tools");
  old_folder.write("chat_template.json", R"({"chat_template": "old {{ pad_token }}"})");
  old_folder.write("special_tokens_map.json", R"({"pad_token": "<pad>", "additional_special_tokens": ["<a>", {"content": "<b>"}]})");
  EXPECT_EQ(ChatTemplate::load(old_folder.path()).render_json(hello()), "old <pad>");
}

TEST(ChatTemplate, AbsentToolsAndDocumentsAreNone) {
  const ChatTemplate chat =
      ChatTemplate::from_text("{{ tools is defined }}{{ tools is none }}{{ documents is none }}{{ x is defined }}{{ extra is defined }}");
  EXPECT_EQ(chat.render_json(hello()), "TrueTrueTrueFalseFalse");
  EXPECT_EQ(chat.render_json(hello(R"("extra": {"x": 1}, "tools": [])")), "TrueFalseTrueTrueFalse");
}

TEST(ChatTemplate, NowSetsTheClockAndIsNotAVariable) {
  const ChatTemplate chat = ChatTemplate::from_text("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}{{ now is defined }}");
  EXPECT_EQ(chat.render_json(hello(R"("now": "2024-02-29T23:59:58")")), "2024-02-29 23:59:58False");
  EXPECT_EQ(chat.render_json(hello(R"("extra": {"now": "1999-12-31"})")), "1999-12-31 00:00:00False");
  EXPECT_THROW(chat.render_json(hello(R"("now": "yesterday")")), Error);
}

TEST(ChatTemplate, ErrorsNameTheReason) {
  const ChatTemplate chat = ChatTemplate::from_text("x");
  for (const char* request : {"", "{", "[]", "{}", "{\"messages\": [}", "\xff"}) EXPECT_THROW(chat.render_json(request), Error) << request;
  const TemporaryFolder folder;
  EXPECT_TRUE(ChatTemplate::load(folder.path()).empty());
  EXPECT_THROW(ChatTemplate::load(folder.path()).render_json(hello()), Error);
  folder.write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_THROW(ChatTemplate::load(folder.path()), Error);
  folder.write("tokenizer_config.json", R"({"chat_template": "{% if %}"})");
  EXPECT_NE(ChatTemplate::load(folder.path()).fault().find("tokenizer_config.json: template line 1:"), std::string::npos);
  EXPECT_THROW(ChatTemplate::load(folder.path()).render_json(hello()), Error);
}

// One line of the parity data; its fields besides the request are not variables.
void expect_parity(const ChatTemplate& chat, const std::string& line, const Json& expected) {
  ChatRequest request = parse_chat_request(line);
  std::erase_if(request.variables, [](const auto& variable) {
    return variable.first == "template" || variable.first == "name" || variable.first == "rendered" || variable.first.starts_with("error");
  });
  std::string text, error;
  try {
    text = chat.render(request);
  } catch (const Error& e) { error = e.what(); }
  if (expected.contains("rendered"))
    EXPECT_EQ(text, expected["rendered"].get<std::string>()) << error;
  else if (expected["error_kind"] == "raised")
    EXPECT_EQ(error, expected["error"].get<std::string>());
  else
    EXPECT_NE(error, "");
}

TEST(ChatTemplate, PublishedTemplatesRenderAsInTheReference) {
  KVIK_NEEDS_SHARED();
  const std::filesystem::path fixtures = shared() / "fixtures";
  std::ifstream lines(fixtures / "parity" / "chat.jsonl");
  int n_cases = 0;
  for (std::string line; std::getline(lines, line); ++n_cases) {
    const Json expected = parse_json(line, "chat.jsonl");
    SCOPED_TRACE(expected["template"].get<std::string>() + ": " + expected["name"].get<std::string>());
    expect_parity(ChatTemplate::from_file(fixtures / "chat-templates" / expected["template"].get<std::string>()), line, expected);
  }
  EXPECT_GT(n_cases, 200);
}

}  // namespace
}  // namespace kvik::text
