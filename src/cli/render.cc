#include <cstdio>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <string>

#include "cli/command.h"
#include "kvik/error.h"
#include "text/chat_template.h"
#include "text/template/json.h"

namespace kvik::cli {
namespace {

struct RenderOptions {
  std::string model;
  std::string template_file;
};

text::ChatTemplate load(const RenderOptions& options, const Terminal& terminal) {
  const std::filesystem::path folder = options.model.empty() ? "" : api::find_model(options.model, terminal.environment).folder;
  return options.template_file.empty() ? text::ChatTemplate::load(folder) : text::ChatTemplate::from_file(options.template_file, folder);
}

// In ASCII, so that no character in a text can be taken for the end of a line.
std::string answer(const text::ChatTemplate& chat, const std::string& line) {
  std::string answer;
  try {
    const std::string rendered = chat.render_json(line);
    answer = "{\"text\":";
    text::jinja::append_json_text(answer, rendered, true);
  } catch (const Error& e) {
    answer = "{\"error\":";
    text::jinja::append_json_text(answer, e.what(), true);
  }
  return answer + "}\n";
}

int run(const RenderOptions& options, const Terminal& terminal) {
  const text::ChatTemplate chat = load(options, terminal);
  if (chat.empty())
    throw Error(Code::kBadArgument, fmt::format("{}: no chat template found; expected chat_template.jinja or \"chat_template\" in "
                                                "tokenizer_config.json; give one with --template",
                                                options.model));
  for (std::string line; std::getline(std::cin, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string text = answer(chat, line);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  if (!chat.fault().empty()) throw Error(Code::kBadModel, chat.fault());
  return 0;
}

}  // namespace

void add_render(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("render", "Render a model's chat template");
  command->footer(
      "Reads one JSON object a line, {\"messages\":[…],\"tools\":…,\"add_generation_prompt\":…,…}, and prints {\"text\":…} or "
      "{\"error\":…} "
      "for each, in order. Further fields are variables of the template; \"now\" sets its clock.");
  auto options = std::make_shared<RenderOptions>();
  CLI::Option* file =
      command->add_option("--template", options->template_file, "A template to use instead of the model's")->option_text("FILE");
  CLI::Option* model = command->add_option("MODEL", options->model, "Folder of the model, or its name on the search path");
  add_common_options(*command, commands.terminal);
  command->callback([=] {
    if (model->count() == 0 && file->count() == 0) throw CLI::RequiredError("MODEL");
    commands.run = [options, &terminal = commands.terminal] { return run(*options, terminal); };
  });
}

}  // namespace kvik::cli
