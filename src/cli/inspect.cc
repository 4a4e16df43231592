#include "cli/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/ort/library.h"
#include "cli/command.h"

namespace kvik::cli {
namespace {

// What --backend auto would take here.
ChosenBackend choose_backend(const analysis::Signature& signature, const std::vector<analysis::Inventory>& inventories,
                             const api::Environment& environment) {
  if (signature.first_step() == nullptr) return {"none", "nothing here generates"};
  const std::filesystem::path library = backend::ort::find_library({environment.ort_library, environment.python_prefixes});
  if (!library.empty()) return {"ort", fmt::format("ONNX Runtime runs any graph ({})", library.string())};
  analysis::Inventory all;
  for (const analysis::Inventory& inventory : inventories) all.add(inventory);
  if (!all.without_kernel.empty())
    return {"none", fmt::format("ONNX Runtime was not found, and the reference evaluator lacks {}", fmt::join(all.without_kernel, ", "))};
  return {"reference", "ONNX Runtime was not found; the reference evaluator has every operator of the graph, and is slow"};
}

int inspect(const std::string& name, const Terminal& terminal, const analysis::Options& options) {
  const api::ModelPath model = api::find_model(name, terminal.environment);
  Inspection inspection;
  inspection.signature = analysis::analyse(model.path(), options, terminal.log());
  for (const analysis::File& file : inspection.signature.files) inspection.inventories.push_back(analysis::take_inventory(*file.model));
  inspection.backend = choose_backend(inspection.signature, inspection.inventories, terminal.environment);
  if (terminal.json) {
    fmt::print("{}\n", inspection_json(inspection).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", inspection_table(inspection, terminal.colour));
  }
  return 0;
}

}  // namespace

void add_inspect(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("inspect", "Say what a model is, without running it");
  const auto name = std::make_shared<std::string>();
  const auto options = std::make_shared<analysis::Options>();
  command->add_option("MODEL", *name, "A folder, an .onnx file, or the name of a model on the search path")->required();
  command->add_option("--variant", options->variant, "Which of several precisions: fp32, fp16, quantized, q4 ...");
  add_common_options(*command, commands.terminal);
  command->callback([name, options, commands] { commands.run = [=] { return inspect(*name, commands.terminal, *options); }; });
}

}  // namespace kvik::cli
