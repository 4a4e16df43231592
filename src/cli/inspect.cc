#include "cli/inspect.h"

#include <fmt/format.h>

#include "base/escape.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/output.h"

namespace kvik::cli {
namespace {

// One JSON object, with the lines of each plan.
std::string json_with_plans(const Inspection& inspection) {
  Json json = Json::parse(to_json(inspection));
  for (size_t i = 0; i < inspection.plans.size(); ++i) json["plan"]["stages"][i]["lines"] = inspection.plans[i].lines;
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

void print_plans(const Inspection& inspection) {
  std::string text;
  for (const PlanInfo& plan : inspection.plans) {
    text += fmt::format("{}{}\n", plan.stage, plan.refused.empty() ? "" : ": no plan: " + escape_controls(plan.refused));
    for (const std::string& line : plan.lines) text += fmt::format("  {}\n", escape_controls(line));
  }
  if (inspection.plans.empty()) text = fmt::format("no plan: {}\n", escape_controls(inspection.backend_reason));
  print_text(text);
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
      if (commands.terminal.json) {
        print_text((*plan ? json_with_plans(inspection) : to_json(inspection)) + "\n");
      } else if (*plan) {
        print_plans(inspection);
      } else {
        print_text(inspection_table(inspection, commands.terminal.color));
      }
      return 0;
    };
  });
}

}  // namespace kvik::cli
