#include "cli/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/load.h"
#include "backend/native/compile.h"
#include "backend/native/graph/outcome.h"
#include "backend/native/source_stage.h"
#include "backend/native/stages.h"
#include "backend/ort/library.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/output.h"

namespace kvik::cli {
namespace {

// What the native backend would do; throws its refusal.
std::vector<StagePlan> native_plans(const analysis::Signature& signature, const LoadOptions& options) {
  if (options.device == Device::kCuda)
    throw Error(Code::kUnsupported, "the native backend runs on the CPU, and another device was asked for");
  const backend::NativeOptions native = api::native_options(options);
  if (signature.first_step() == nullptr) {  // an encoder by itself
    const std::shared_ptr<const native::Plan> plan = native::make_plan(native::take(native::compile_encoder(signature)), native.no_fuse);
    return {{"encoder", native::report(*plan, native.weights, native.kv.value_or(cpu::KvFormat::kF32)), {}}};
  }
  const native::Stages stages = native::take(native::compile_stages(signature, {native.context, native.no_fuse}));
  const cpu::KvFormat kv = native::kv_format_of(signature, native.kv);
  std::vector<StagePlan> plans;
  const auto add = [&](const char* stage, const std::shared_ptr<const native::Plan>& plan, const std::string& refused) {
    if (plan != nullptr) plans.push_back({stage, native::report(*plan, native.weights, kv), {}});
    if (!refused.empty()) plans.push_back({stage, {}, refused});
  };
  add("decoder", stages.decoder, {});
  add("encoder", stages.encoder, stages.encoder_refused);
  add("embedding", stages.embedding, stages.embedding_refused);
  return plans;
}

// What would take over from the native backend.
ChosenBackend choose_other(const Inspection& inspection, const api::Environment& environment) {
  const std::filesystem::path library = backend::ort::find_library({environment.ort_library, environment.python_prefixes});
  if (!library.empty()) return {"ort", fmt::format("ONNX Runtime runs any graph ({})", library.string())};
  analysis::Inventory all;
  for (const analysis::Inventory& inventory : inspection.inventories) all.add(inventory);
  if (!all.without_kernel.empty())
    return {"none", fmt::format("ONNX Runtime was not found, and the reference evaluator lacks {}", fmt::join(all.without_kernel, ", "))};
  return {"reference", "ONNX Runtime was not found; the reference evaluator has every operator of the graph, and is slow"};
}

// What loading would take, and the plan where that is ours.
void choose_backend(Inspection& inspection, const LoadOptions& options, const api::Environment& environment) {
  if (inspection.signature.first_step() == nullptr) {
    inspection.backend = {"none", "nothing here generates"};
    if (inspection.signature.kind != analysis::Kind::kEncoder) return;
    try {
      inspection.plans = native_plans(inspection.signature, options);
    } catch (const Error& e) { inspection.plans = {{"encoder", {}, e.what()}}; }
    return;
  }
  if (options.backend == BackendChoice::kOrt || options.backend == BackendChoice::kReference) {
    inspection.backend = {options.backend == BackendChoice::kOrt ? "ort" : "reference", "asked for"};
    return;
  }
  try {
    inspection.plans = native_plans(inspection.signature, options);
    inspection.backend = {"native", "the graph is a program over rows"};
    for (const StagePlan& plan : inspection.plans) {
      if (!plan.refused.empty()) inspection.backend.why += fmt::format("; its {} runs elsewhere: {}", plan.stage, plan.refused);
    }
  } catch (const Error& e) {
    const bool stays = options.backend == BackendChoice::kNative || e.code() != Code::kUnsupported;
    inspection.backend = stays ? ChosenBackend{"none", e.what()} : choose_other(inspection, environment);
    if (!stays) inspection.backend.why = fmt::format("not native: {}; {}", e.what(), inspection.backend.why);
  }
}

int inspect(const ModelOptions& options, const Terminal& terminal) {
  const api::ModelPath model = api::find_model(options.model, terminal.environment);
  Inspection inspection;
  inspection.signature = analysis::analyze(model.path(), {options.load.variant}, terminal.log());
  for (const analysis::File& file : inspection.signature.files) inspection.inventories.push_back(analysis::take_inventory(*file.model));
  choose_backend(inspection, options.load, terminal.environment);
  if (terminal.json) {
    print_result("{}\n", inspection_json(inspection).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    print_text(inspection_table(inspection, terminal.color));
  }
  return 0;
}

}  // namespace

void add_inspect(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("inspect", "Describe a model without running it");
  const auto options = std::make_shared<ModelOptions>();
  add_model_options(*command, *options, commands.terminal);
  command->callback([options, commands] { commands.run = [=] { return inspect(*options, commands.terminal); }; });
}

}  // namespace kvik::cli
