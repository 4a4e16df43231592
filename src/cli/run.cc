#include <csignal>
#include <fmt/format.h>
#include <iostream>
#include <unistd.h>

#include "base/json.h"
#include "cli/model_options.h"
#include "cli/progress.h"

namespace kvik::cli {
namespace {

struct RunOptions {
  ModelOptions model;
  GenerateOptions generate;
  std::string prompt;
  std::string ids;
  bool has_ids = false;
  bool chat = false;
  bool no_cache = false;
};

std::vector<TokenId> prompt_ids(const Model& model, const RunOptions& options) {
  if (options.has_ids) return parse_ids(options.ids);
  std::string prompt = options.prompt == "-" ? read_standard_input() : options.prompt;
  if (!options.chat) return model.tokenize(prompt);
  const Json messages = Json::array({{{"role", "user"}, {"content", prompt}}});
  return model.tokenize(model.apply_chat_template(messages.dump(-1, ' ', false, Json::error_handler_t::replace)), false);
}

Json to_json(const Model& model, const Generation& generation, const std::string& text) {
  const Metrics metrics = generation.metrics();
  return {
      {"prompt_ids", generation.prompt_ids()},
      {"ids", generation.ids()},
      {"text", text},
      {"finish", finish_name(generation.finish())},
      {"backend", model.backend()},
      {"device", model.device()},
      {"timing",
       {{"load_ms", model.load_ms()},
        {"prefill_ms", metrics.prefill_ms},
        {"first_token_ms", metrics.first_token_ms},
        {"decode_ms", metrics.decode_ms},
        {"prefill_tokens_per_s", metrics.prefill_tokens_per_s()},
        {"decode_tokens_per_s", metrics.decode_tokens_per_s()}}},
      {"memory", {{"weights_bytes", model.weights_bytes()}, {"kv_bytes", metrics.cache_bytes}, {"peak_rss_bytes", peak_resident_bytes()}}}};
}

void say_timing(const Model& model, const Metrics& metrics) {
  fmt::print(stderr, "kvik: {} on {}: {} prompt tokens in {:.0f} ms ({:.0f}/s), {} new tokens ({:.1f}/s), first after {:.0f} ms\n",
             model.backend(), model.device(), metrics.prompt_tokens, metrics.prefill_ms, metrics.prefill_tokens_per_s(),
             metrics.generated_tokens, metrics.decode_tokens_per_s(), metrics.first_token_ms);
}

int run(const RunOptions& options, const Terminal& terminal) {
  const Model model = load_model(options.model, terminal);
  GenerateOptions generate = options.generate;
  generate.use_cache = !options.no_cache;
  const Interrupt interrupt;
  generate.cancelled = [] { return Interrupt::happened(); };
  Progress progress(terminal, "reading the prompt");
  generate.progress = [&](int done, int total) { progress.show(done, total); };
  std::vector<TokenId> prompt = prompt_ids(model, options);
  if (prompt.empty() && !options.has_ids) prompt = model.start_ids();
  Generation generation = model.generate(prompt, generate);
  progress.clear();

  std::string text;
  while (const std::optional<std::string_view> piece = generation.next()) {
    text += *piece;
    if (terminal.json) continue;
    std::cout << *piece << std::flush;
    if (!std::cout) return 1;  // whoever read us is gone
  }
  if (terminal.json) {
    std::cout << to_json(model, generation, text).dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
    return 0;
  }
  if (!model.has_tokenizer()) {
    for (size_t i = 0; i < generation.ids().size(); ++i) std::cout << (i == 0 ? "" : ",") << generation.ids()[i];
  }
  std::cout << std::endl;
  if (!terminal.quiet) say_timing(model, generation.metrics());
  return 0;
}

}  // namespace

void add_run(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("run", "Continue a text, and show it as it comes");
  auto options = std::make_shared<RunOptions>();
  add_model_options(*command, options->model, commands.terminal);
  command->add_option("PROMPT", options->prompt, "The text to continue; - reads standard input")->option_text(" ");
  CLI::Option* ids = command->add_option("--ids", options->ids, "Token ids instead of text: 1,2,3")->option_text("IDS");
  command->add_flag("--chat", options->chat, "Put the prompt into the model's chat template");
  command->add_flag("--no-cache", options->no_cache, "Compute everything again at every step, to compare");
  add_sampling_options(*command, options->generate);
  command->callback([=] {
    options->has_ids = ids->count() > 0;
    commands.run = [=] { return run(*options, commands.terminal); };
  });
}

}  // namespace kvik::cli
