#include "engine/verify.h"

#include <fmt/format.h>
#include <iostream>

#include "api/load.h"
#include "api/state.h"
#include "base/json.h"
#include "cli/model_options.h"

namespace kvik::cli {
namespace {

constexpr int kPromptTokens = 12;  // enough for every kind of split, little enough for a large model

struct VerifyCommand {
  ModelOptions model;
  std::string prompt;
  std::string ids;
  std::string against = "auto";
  double tolerance = 0;
};

// Ids all over the vocabulary, the same each time.
std::vector<TokenId> made_up_prompt(int vocab, int limit) {
  std::vector<TokenId> ids;
  const int n = limit > 0 ? std::min(kPromptTokens, limit) : kPromptTokens;
  for (int i = 0; i < n; ++i) ids.push_back(static_cast<TokenId>((int64_t{i} * 7919 + 31) % vocab));
  return ids;
}

bool quantises_activations(const onnx::Graph& graph) {
  for (const onnx::Node& node : graph.nodes) {
    if (node.op == "DynamicQuantizeLinear" || node.op == "DynamicQuantizeMatMul") return true;
    if (node.op == "MatMulNBits" && node.int_or("accuracy_level", 0) == 4) return true;
    for (const onnx::Attribute& attribute : node.attributes) {
      const auto* inner = std::get_if<std::shared_ptr<const onnx::Graph>>(&attribute.data);
      if (inner != nullptr && quantises_activations(**inner)) return true;
    }
  }
  return false;
}

bool computes_in_half(const onnx::Graph& graph) {
  for (const onnx::TensorData& weight : graph.initializers) {
    if (weight.dtype == DType::kF16 || weight.dtype == DType::kBF16) return true;
  }
  return false;
}

// How far two honest ways through the graph may be apart: rounding of the type it computes in, and for activations that are
// quantised by run, the error of that.
double honest_tolerance(const analysis::Signature& signature) {
  const onnx::Graph& graph = *signature.later_step()->model->graph;
  if (quantises_activations(graph)) return 0.25;
  return computes_in_half(graph) ? 0.02 : 1e-3;
}

void print_law(const engine::LawResult& law, const Terminal& terminal) {
  const char* green = terminal.colour ? "\033[32m" : "";
  const char* red = terminal.colour ? "\033[31m" : "";
  const char* plain = terminal.colour ? "\033[0m" : "";
  const std::string how =
      law.exact ? "equal bits" : fmt::format("differs by {:.2g} ({:.2g} of the spread)", law.max_difference, law.relative_difference);
  fmt::print("{}{:<7}{} {:<28} {:>4} cases  {}\n", law.holds ? green : red, law.holds ? "holds" : "FAILS", plain, law.name, law.cases, how);
  if (!law.holds) fmt::print("        {}\n", law.detail);
  std::cout << std::flush;
}

std::shared_ptr<backend::Backend> other_backend(const VerifyCommand& options, const Model& model, const Log& log) {
  if (options.against == "none") return nullptr;
  LoadOptions load = options.model.load;
  load.backend = model.backend() == "reference" ? BackendChoice::kOrt : BackendChoice::kReference;
  try {
    return api::open_backend(ModelAccess::state(model).signature, load, api::read_environment(), log);
  } catch (const Error& e) {
    log.warning(fmt::format("nothing to compare with: {}", e.what()));
    return nullptr;
  }
}

int verify(const VerifyCommand& options, const Terminal& terminal) {
  const Model model = load_model(options.model, terminal);
  const auto& state = ModelAccess::state(model);
  if (state.backend->traits().needs_source) throw Error(Code::kUnsupported, "verify proves decoders; this model translates from a source");
  engine::VerifyOptions laws;
  laws.context = options.model.load.context;
  if (!options.ids.empty()) laws.prompt = parse_ids(options.ids);
  if (!options.prompt.empty()) laws.prompt = model.tokenize(options.prompt);
  if (laws.prompt.empty()) laws.prompt = made_up_prompt(model.vocab_size(), model.max_positions());
  laws.tolerance = state.backend->traits().exact ? 0 : options.tolerance > 0 ? options.tolerance : honest_tolerance(state.signature);
  laws.other = other_backend(options, model, terminal.log());
  if (laws.other != nullptr) laws.other_name = laws.other->traits().name;
  if (!terminal.json) {
    fmt::print(
        "{} on {}, {} tokens; {}\n", model.backend(), model.device(), laws.prompt.size(),
        laws.tolerance == 0 ? "equal bits are demanded" : fmt::format("logits may differ by {:.3g} of their spread", laws.tolerance));
    laws.report = [&](const engine::LawResult& law) { print_law(law, terminal); };
  }
  const std::vector<engine::LawResult> results = engine::verify_decoder(state.backend, laws);
  bool all = true;
  Json list = Json::array();
  for (const engine::LawResult& law : results) {
    all = all && law.holds;
    Json entry = {{"name", law.name},
                  {"cases", law.cases},
                  {"holds", law.holds},
                  {"exact", law.exact},
                  {"max_difference", law.max_difference},
                  {"relative_difference", law.relative_difference}};
    if (!law.detail.empty()) entry["detail"] = law.detail;
    list.push_back(std::move(entry));
  }
  if (terminal.json) std::cout << Json{{"backend", model.backend()}, {"tolerance", laws.tolerance}, {"laws", list}}.dump() << "\n";
  return all ? 0 : 1;
}

}  // namespace

void add_verify(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("verify", "Prove or refute on a model that its cache is right, law by law");
  auto options = std::make_shared<VerifyCommand>();
  add_model_options(*command, options->model, commands.terminal);
  command->add_option("PROMPT", options->prompt, "The text to prove it on; ids all over the vocabulary without one")->option_text(" ");
  command->add_option("--ids", options->ids, "Token ids instead of text: 1,2,3")->option_text("IDS");
  command->add_option("--against", options->against, "Another backend that must agree: auto or none")
      ->check(CLI::IsMember({"auto", "none"}))
      ->option_text("auto|none");
  command->add_option("--tolerance", options->tolerance, "How much logits may differ, as a share of their spread")
      ->check(CLI::PositiveNumber)
      ->option_text("X");
  command->callback([=] { commands.run = [=] { return verify(*options, commands.terminal); }; });
}

}  // namespace kvik::cli
