#include <fmt/format.h>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "kvik/error.h"
#include "kvik/text.h"

namespace kvik::cli {
namespace {

struct RenderOptions {
  std::string model;
  std::string template_file;
};

std::string render_line(const ChatTemplate& chat, const std::string& line) {
  try {
    return fmt::format("{{\"text\":{}}}\n", quote_json(chat.render(line)));
  } catch (const Error& e) { return fmt::format("{{\"error\":{}}}\n", quote_json(e.what())); }
}

int render_lines(const RenderOptions& options) {
  const ChatTemplate chat =
      options.template_file.empty() ? ChatTemplate::load(options.model) : ChatTemplate::from_file(options.template_file, options.model);
  if (chat.empty())
    throw Error(Code::kBadArgument, fmt::format("{}: no chat template found; expected chat_template.jinja or \"chat_template\" in "
                                                "tokenizer_config.json; give one with --template",
                                                options.model));
  const Interrupt interrupt;
  StandardInput input;
  while (const std::optional<std::string> line = input.next_line()) {
    if (line->find_first_not_of(" \t") == std::string::npos) continue;
    print_text(render_line(chat, *line));
    flush_output();
  }
  if (!chat.fault().empty()) throw Error(Code::kBadModel, chat.fault());
  return 0;
}

}  // namespace

void add_render(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("render", "Render a model's chat template");
  command->footer(
      "Reads one JSON object per line, {\"messages\":[…],\"tools\":…,\"add_generation_prompt\":…,…}, and prints {\"text\":…} or "
      "{\"error\":…} "
      "for each, in order. Other fields become variables of the template; \"now\" sets its clock.");
  auto options = std::make_shared<RenderOptions>();
  CLI::Option* file =
      command->add_option("--template", options->template_file, "Template to use instead of the model's")->option_text("FILE");
  CLI::Option* model = command->add_option("MODEL", options->model, "Folder, or name of a model on the search path")->option_text(" ");
  add_common_options(*command, commands.terminal);
  command->callback([=] {
    if (model->count() == 0 && file->count() == 0) throw CLI::RequiredError("MODEL");
    commands.run = [options] { return render_lines(*options); };
  });
}

}  // namespace kvik::cli
