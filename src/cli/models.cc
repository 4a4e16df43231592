#include <algorithm>
#include <fmt/format.h>

#include "base/escape.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/inspect.h"
#include "cli/output.h"

namespace kvik::cli {
namespace {

Json models_json(const std::vector<ModelInfo>& models) {
  Json list = Json::array();
  for (const ModelInfo& model : models) {
    list.push_back({{"name", model.name},
                    {"path", model.folder.string()},
                    {"kind", model.kind},
                    {"weights_bytes", model.weights_bytes},
                    {"cache_bytes", model.cache_bytes},
                    {"memory_bytes", model.weights_bytes + model.cache_bytes},
                    {"fits", model.fits},
                    {"advised", model.recommended}});
  }
  return list;
}

std::string models_table(const std::vector<ModelInfo>& models) {
  size_t width = 4;
  for (const ModelInfo& model : models) width = std::max(width, escape_controls(model.name).size());
  std::string text = fmt::format("{:<{}}  {:<16}{:<12}{:<12}\n", "name", width, "kind", "weights", "memory");
  for (const ModelInfo& model : models) {
    const std::string note = !model.fits ? "does not fit into free memory" : model.recommended ? "recommended" : "";
    text += fmt::format("{:<{}}  {:<16}{:<12}{:<12}{}\n", escape_controls(model.name), width, model.kind, size_text(model.weights_bytes),
                        size_text(model.weights_bytes + model.cache_bytes), note);
  }
  return text;
}

int print_models(const Terminal& terminal) {
  const Log log = terminal.log();
  const std::vector<ModelInfo> models = list_models([&](LogLevel level, std::string_view sentence) { log.log(level, sentence); });
  if (terminal.json) {
    print_result("{}\n", models_json(models).dump(2, ' ', false, Json::error_handler_t::replace));
  } else if (!models.empty()) {
    print_text(models_table(models));
  }
  if (models.empty()) log.warning("no model was found on the search path; set KVIK_MODELS to the folder that contains your models");
  return 0;
}

}  // namespace

void add_models(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("models", "List the models on the search path");
  add_common_options(*command, commands.terminal);
  command->callback([commands] { commands.run = [=] { return print_models(commands.terminal); }; });
}

}  // namespace kvik::cli
