#include "kvik/verify.h"

#include <fmt/format.h>

#include "base/json.h"
#include "cli/choices.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/target_options.h"
#include "cli/validators.h"

namespace kvik::cli {
namespace {

struct VerifyCommand {
  ModelOptions model;
  std::string prompt;
  std::string ids;
  std::string features;
  std::string against = "auto";
  double tolerance = 0;
};

void print_law(const Law& law, const Terminal& terminal) {
  const char* color = !terminal.color ? "" : law.information ? "\033[2m" : law.holds ? "\033[32m" : "\033[31m";
  const char* plain = terminal.color ? "\033[0m" : "";
  const char* verdict = law.information ? "info" : law.holds ? "holds" : "FAILS";
  const std::string difference =
      law.exact ? "equal bits" : fmt::format("differs by {:.2g} ({:.2g} of the spread)", law.max_difference, law.relative_difference);
  print_result("{}{:<7}{} {:<32} {:>4} cases  {}\n", color, verdict, plain, law.name, law.cases, difference);
  if (!law.detail.empty()) print_result("        {}\n", law.detail);
  flush_output();
}

Json law_json(const Law& law) {
  Json json = {{"name", law.name},
               {"cases", law.cases},
               {"holds", law.holds},
               {"exact", law.exact},
               {"information", law.information},
               {"max_difference", law.max_difference},
               {"relative_difference", law.relative_difference}};
  if (!law.detail.empty()) json["detail"] = law.detail;
  return json;
}

VerifyOptions verify_options(const VerifyCommand& command, const Model& model, const Terminal& terminal) {
  VerifyOptions options;
  if (!command.ids.empty()) {
    options.ids = parse_ids(command.ids);
  } else if (!command.prompt.empty()) {
    options.ids = model.tokenize(command.prompt);
  }
  if (!command.features.empty()) options.features = read_features(command.features, model.feature_rank());
  options.compare = command.against != "none";
  options.tolerance = command.tolerance;
  options.cancelled = [] { return Interrupt::happened(); };
  if (terminal.json) return options;
  options.on_start = [&](std::string_view subject, double tolerance) {
    print_result("{} on {}, {}; {}\n", model.backend(), model.device(), subject,
                 tolerance == 0 ? "equal bits are required" : fmt::format("logits may differ by {:.3g} of their spread", tolerance));
    flush_output();
  };
  options.on_law = [&](const Law& law) { print_law(law, terminal); };
  return options;
}

int verify_model(const VerifyCommand& command, const Terminal& terminal) {
  const Model model = load_model(command.model, terminal);
  const Interrupt interrupt;
  const Verification result = verify(model, verify_options(command, model, terminal));
  if (terminal.json) {
    Json laws = Json::array();
    for (const Law& law : result.laws) laws.push_back(law_json(law));
    print_result("{}\n", Json{{"backend", model.backend()}, {"tolerance", result.tolerance}, {"laws", laws}}.dump());
  }
  return result.holds() ? 0 : 1;
}

}  // namespace

void add_verify(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("verify", "Check that a model's results do not depend on how they are computed");
  auto options = std::make_shared<VerifyCommand>();
  add_model_options(*command, options->model, commands.terminal);
  command->add_option("PROMPT", options->prompt, "Text to compute (translation models: the source); default: ids from the whole vocabulary")
      ->option_text(" ");
  command->add_option("--ids", options->ids, "Token ids instead of text: 1,2,3")->option_text("IDS");
  command
      ->add_option("--features", options->features,
                   "Input features of an audio or image encoder, with or without a batch axis; default: synthetic ones")
      ->option_text("FILE.npy");
  command->add_option("--against", options->against, "Compare with other backends, thread counts and instruction sets: auto or none")
      ->check(one_of({"auto", "none"}))
      ->option_text("auto|none");
  command
      ->add_option("--tolerance", options->tolerance,
                   "Largest difference of two logits to accept, as a fraction of their standard deviation")
      ->check(greater_than_zero())
      ->option_text("X");
  command->callback([=] { commands.run = [=] { return verify_model(*options, commands.terminal); }; });
}

}  // namespace kvik::cli
