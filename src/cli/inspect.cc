#include "cli/inspect.h"

#include <fmt/format.h>

#include "base/escape.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/output.h"

namespace kvik::cli {
namespace {

int print_plans(const Inspection& inspection) {
  std::string text;
  for (const PlanInfo& plan : inspection.plans) {
    text += fmt::format("{}{}\n", plan.stage, plan.refused.empty() ? "" : ": no plan: " + escape_controls(plan.refused));
    for (const std::string& line : plan.lines) text += fmt::format("  {}\n", escape_controls(line));
  }
  if (inspection.plans.empty()) text = fmt::format("no plan: {}\n", escape_controls(inspection.backend_reason));
  print_text(text);
  return 0;
}

}  // namespace

void add_inspect(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("inspect", "Describe a model without running it");
  const auto options = std::make_shared<ModelOptions>();
  const auto plan = std::make_shared<bool>(false);
  add_model_options(*command, *options, commands.terminal);
  command->add_flag("--plan", *plan, "Print the compiled plan, one line per op");
  command->callback([options, plan, commands] {
    commands.run = [=] {
      LoadOptions load = options->load;
      load.log = [log = commands.terminal.log()](LogLevel level, std::string_view message) { log.log(level, message); };
      const Inspection inspection = inspect(options->model, load);
      if (*plan) return print_plans(inspection);
      print_text(commands.terminal.json ? to_json(inspection) + "\n" : inspection_table(inspection, commands.terminal.color));
      return 0;
    };
  });
}

}  // namespace kvik::cli
