#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/target_options.h"

namespace kvik::cli {
namespace {

struct RunOptions {
  ModelOptions model;
  GenerateOptions generate;
  SpeculationOptions speculation;
  std::string prompt;
  std::string ids;
  bool has_ids = false;
  bool chat = false;
  bool no_cache = false;
  std::string prefix;
  std::string save_prefix;
};

std::vector<TokenId> prompt_ids(const Model& model, const RunOptions& options) {
  if (options.has_ids) return parse_ids(options.ids);
  std::string prompt = options.prompt == "-" ? StandardInput().read_all() : options.prompt;
  if (!options.chat) return model.tokenize(prompt);
  const Json messages = Json::array({{{"role", "user"}, {"content", prompt}}});
  return model.tokenize(model.apply_chat_template(messages.dump(-1, ' ', false, Json::error_handler_t::replace)), false);
}

Json generation_json(const Model& model, const Generation& generation, const std::string& text) {
  const Metrics metrics = generation.metrics();
  return {
      {"prompt_ids", generation.prompt_ids()},
      {"ids", generation.ids()},
      {"text", text},
      {"finish", finish_name(generation.finish())},
      {"backend", model.backend()},
      {"device", model.device()},
      {"reused_tokens", metrics.reused_tokens},
      {"timing",
       {{"load_ms", model.load_ms()},
        {"prefill_ms", metrics.prefill_ms},
        {"first_token_ms", metrics.first_token_ms},
        {"decode_ms", metrics.decode_ms},
        {"prefill_tokens_per_s", metrics.prefill_tokens_per_s()},
        {"decode_tokens_per_s", metrics.decode_tokens_per_s()}}},
      {"memory", {{"weights_bytes", model.weights_bytes()}, {"kv_bytes", metrics.cache_bytes}, {"peak_rss_bytes", peak_resident_bytes()}}}};
}

Json speculation_json(const Metrics& metrics) {
  return {{"proposed", metrics.proposed_tokens}, {"accepted", metrics.accepted_tokens}, {"tokens_per_run", metrics.tokens_per_run()}};
}

void print_timing(const Model& model, const Metrics& metrics) {
  const std::string reused = metrics.reused_tokens > 0 ? fmt::format(" after {} reused ones", metrics.reused_tokens) : "";
  print_message("{} on {}: {} prompt tokens{} in {:.0f} ms ({:.0f}/s), {} new tokens ({:.1f}/s), first after {:.0f} ms{}", model.backend(),
                model.device(), metrics.prompt_tokens, reused, metrics.prefill_ms, metrics.prefill_tokens_per_s(), metrics.generated_tokens,
                metrics.decode_tokens_per_s(), metrics.first_token_ms, describe_speculation(metrics));
}

int save_prefix(const Model& model, std::span<const TokenId> prompt, const RunOptions& options, const Terminal& terminal) {
  Session session = model.session();
  GenerateOptions generate;
  generate.max_tokens = 0;
  generate.cancelled = [] { return Interrupt::happened(); };
  Progress progress(terminal, "reading the prompt");
  generate.progress = [&](int done, int total) { progress.show(done, total); };
  const Finish finish = model.generate(session, prompt, generate).finish();
  progress.clear();
  if (finish == Finish::kCancelled) return 1;
  session.save(options.save_prefix);
  if (terminal.json) print_result("{}\n", Json{{"tokens", session.length()}, {"file", options.save_prefix}}.dump());
  if (!terminal.json && !terminal.quiet) print_message("{}: {} tokens", options.save_prefix, session.length());
  return 0;
}

int generate_text(const RunOptions& options, const Terminal& terminal) {
  const Model model = load_model(options.model, terminal);
  if (!options.prefix.empty()) terminal.log().info(fmt::format("{}: {} tokens", options.prefix, model.load_prefix(options.prefix)));
  terminal.log().info("reading the prompt");
  std::vector<TokenId> prompt = prompt_ids(model, options);
  if (options.has_ids && !options.prompt.empty()) terminal.log().warning("PROMPT is ignored, because --ids is set");
  if (prompt.empty() && !options.has_ids) prompt = model.start_ids();
  const Interrupt interrupt;
  if (!options.save_prefix.empty()) return save_prefix(model, prompt, options, terminal);
  terminal.log().info("generating");
  GenerateOptions generate = options.generate;
  generate.use_cache = !options.no_cache;
  apply(options.speculation, options.model, terminal, generate);
  generate.cancelled = [] { return Interrupt::happened(); };
  Progress progress(terminal, "reading the prompt");
  generate.progress = [&](int done, int total) { progress.show(done, total); };
  Generation generation = model.generate(prompt, generate);
  progress.clear();
  std::string text;
  while (const std::optional<std::string_view> piece = generation.next()) {
    text += *piece;
    if (terminal.json) continue;
    print_text(*piece);
    flush_output();
  }
  if (terminal.json) {
    Json result = generation_json(model, generation, text);
    if (options.speculation.any()) result["speculation"] = speculation_json(generation.metrics());
    print_result("{}\n", result.dump(-1, ' ', false, Json::error_handler_t::replace));
    return 0;
  }
  if (!model.has_tokenizer()) print_result("{}", fmt::join(generation.ids(), ","));
  print_text("\n");
  flush_output();
  if (!terminal.quiet) print_timing(model, generation.metrics());
  return 0;
}

}  // namespace

void add_run(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("run", "Generate text from a prompt, printed as it is generated");
  auto options = std::make_shared<RunOptions>();
  add_model_options(*command, options->model, commands.terminal);
  command->add_option("PROMPT", options->prompt, "Text to continue; - reads standard input")->option_text(" ");
  CLI::Option* ids = command->add_option("--ids", options->ids, "Token ids instead of text: 1,2,3")->option_text("IDS");
  command->add_flag("--chat", options->chat, "Apply the model's chat template to the prompt, as a message of the user");
  command
      ->add_option("--prefix", options->prefix,
                   "A prefix saved with --save-prefix; its tokens are not recomputed if the prompt begins with them")
      ->option_text("FILE");
  command->add_option("--save-prefix", options->save_prefix, "Compute the prompt, save its cache for --prefix, and generate nothing")
      ->option_text("FILE");
  command->add_flag("--no-cache", options->no_cache, "Recompute everything at each step, for comparison");
  add_speculation_options(*command, options->speculation);
  add_generation_options(*command, options->generate);
  command->callback([=] {
    options->has_ids = ids->count() > 0;
    commands.run = [=] { return generate_text(*options, commands.terminal); };
  });
}

}  // namespace kvik::cli
