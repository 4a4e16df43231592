#include "cli/inspect.h"

#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/output.h"

namespace kvik::cli {

void add_inspect(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("inspect", "Describe a model without running it");
  const auto options = std::make_shared<ModelOptions>();
  add_model_options(*command, *options, commands.terminal);
  command->callback([options, commands] {
    commands.run = [=] {
      LoadOptions load = options->load;
      load.log = [log = commands.terminal.log()](LogLevel level, std::string_view message) { log.log(level, message); };
      const Inspection inspection = inspect(options->model, load);
      print_text(commands.terminal.json ? to_json(inspection) + "\n" : inspection_table(inspection, commands.terminal.color));
      return 0;
    };
  });
}

}  // namespace kvik::cli
