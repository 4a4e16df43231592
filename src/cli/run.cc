#include <chrono>
#include <climits>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/target.h"
#include "base/json.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/target_options.h"
#include "engine/sequence.h"

namespace kvik::cli {
namespace {

struct RunOptions {
  ModelOptions model;
  TargetOptions target;
  std::string prompt;
  std::string ids;
  bool has_ids = false;
  bool chat = false;
  bool no_cache = false;
};

std::vector<TokenId> prompt_ids(const Model& model, const RunOptions& options) {
  if (options.has_ids) return parse_ids(options.ids);
  std::string prompt = options.prompt == "-" ? StandardInput().read_all() : options.prompt;
  if (!options.chat) return model.tokenize(prompt);
  const Json messages = Json::array({{{"role", "user"}, {"content", prompt}}});
  return model.tokenize(model.apply_chat_template(messages.dump(-1, ' ', false, Json::error_handler_t::replace)), false);
}

// What was generated, by sampling or by beam search.
struct Answer {
  std::vector<TokenId> prompt_ids, ids;
  std::string text;
  std::string finish;
  Metrics metrics;
};

Json to_json(const Model& model, const Answer& answer) {
  const Metrics& metrics = answer.metrics;
  return {
      {"prompt_ids", answer.prompt_ids},
      {"ids", answer.ids},
      {"text", answer.text},
      {"finish", answer.finish},
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

void print_timing(const Model& model, const Metrics& metrics) {
  print_message("{} on {}: {} prompt tokens in {:.0f} ms ({:.0f}/s), {} new tokens ({:.1f}/s), first after {:.0f} ms", model.backend(),
                model.device(), metrics.prompt_tokens, metrics.prefill_ms, metrics.prefill_tokens_per_s(), metrics.generated_tokens,
                metrics.decode_tokens_per_s(), metrics.first_token_ms);
}

// Token by token; the text is printed as it is generated, unless --json.
Answer stream(const Model& model, const RunOptions& options, std::vector<TokenId> prompt, const Terminal& terminal) {
  GenerateOptions generate = options.target.generate;
  generate.use_cache = !options.no_cache;
  generate.cancelled = [] { return Interrupt::happened(); };
  Progress progress(terminal, "reading the prompt");
  generate.progress = [&](int done, int total) { progress.show(done, total); };
  Generation generation = model.generate(prompt, generate);
  progress.clear();
  Answer answer;
  while (const std::optional<std::string_view> piece = generation.next()) {
    answer.text += *piece;
    if (terminal.json) continue;
    print_text(*piece);
    flush_output();
  }
  answer.prompt_ids = std::move(prompt);
  answer.ids = generation.ids();
  answer.finish = finish_name(generation.finish());
  answer.metrics = generation.metrics();
  return answer;
}

// With beams nothing is certain before the end; the text is printed then.
Answer search(const Model& model, const RunOptions& options, std::vector<TokenId> prompt, const Terminal&) {
  if (options.no_cache) throw Error(Code::kBadArgument, "--no-cache and --beams exclude each other: beams are forks of the cache");
  if (prompt.empty()) throw Error(Code::kBadArgument, "the prompt is empty; at least one token was expected");
  const ModelAccess::State& state = ModelAccess::state(model);
  const int capacity = engine::Sequence(state.backend, options.model.load.context).capacity();
  const int room = capacity > 0 ? capacity - static_cast<int>(prompt.size()) : INT_MAX;
  if (room < 1) throw Error(Code::kTooLarge, fmt::format("the prompt has {} tokens; the context has room for {}", prompt.size(), capacity));
  api::Target target = api::make_target(state, options.target.settled());
  engine::SearchOptions& search = target.translate.search;
  search.start = prompt;
  search.beams.max_length = prompt.size() + static_cast<size_t>(std::min(target.max_new_tokens, room));
  std::vector<std::chrono::steady_clock::time_point> steps;
  target.translate.cancelled = [&] {
    steps.push_back(std::chrono::steady_clock::now());
    return Interrupt::happened();
  };
  const sample::Sampler sampler(target.sampling, static_cast<size_t>(model.vocab_size()));
  const engine::EncodedSource no_source;
  const auto start = std::chrono::steady_clock::now();
  sample::Hypothesis best;
  try {
    best = engine::translate(*state.backend, {&no_source, 1}, sampler, target.translate).front().front();
  } catch (const engine::Cancelled&) { return {prompt, {}, {}, std::string(finish_name(Finish::kCancelled)), {}}; }
  const auto ms_between = [](auto from, auto to) { return std::chrono::duration<double, std::milli>(to - from).count(); };
  const Hypothesis described = api::describe(state, target, best);
  Answer answer{prompt, best.ids, described.text, std::string(finish_name(described.finish)), {}};
  const auto first = steps.size() > 1 ? steps[1] : std::chrono::steady_clock::now();
  answer.metrics.prefill_ms = answer.metrics.first_token_ms = ms_between(start, first);
  answer.metrics.decode_ms = ms_between(first, std::chrono::steady_clock::now());
  answer.metrics.prompt_tokens = static_cast<int>(prompt.size());
  answer.metrics.generated_tokens = static_cast<int>(best.ids.size());
  answer.metrics.cache_bytes = static_cast<size_t>(state.signature.cache_bytes_per_token()) * (prompt.size() + best.ids.size());
  return answer;
}

int generate_text(const RunOptions& options, const Terminal& terminal) {
  const Model model = load_model(options.model, terminal);
  ModelAccess::state(model).check_continues_prompts();
  terminal.log().info("reading the prompt");
  std::vector<TokenId> prompt = prompt_ids(model, options);
  if (prompt.empty() && !options.has_ids) prompt = model.start_ids();
  const bool beams = api::beams_of(ModelAccess::state(model), options.target.settled()) > 1;
  const Interrupt interrupt;
  terminal.log().info("generating");
  const Answer answer = (beams ? search : stream)(model, options, std::move(prompt), terminal);
  if (terminal.json) {
    print_result("{}\n", to_json(model, answer).dump(-1, ' ', false, Json::error_handler_t::replace));
    return 0;
  }
  if (!model.has_tokenizer()) {
    print_result("{}", fmt::join(answer.ids, ","));
  } else if (beams) {
    print_text(answer.text);
  }
  print_text("\n");
  flush_output();
  if (!terminal.quiet) print_timing(model, answer.metrics);
  return 0;
}

}  // namespace

void add_run(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("run", "Generate text from a prompt, printed as it is generated");
  auto options = std::make_shared<RunOptions>();
  add_model_options(*command, options->model, commands.terminal);
  command->add_option("PROMPT", options->prompt, "Text to continue; - reads standard input")->option_text(" ");
  CLI::Option* ids = command->add_option("--ids", options->ids, "Token ids instead of text: 1,2,3")->option_text("IDS");
  command->add_flag("--chat", options->chat, "Apply the model's chat template to the prompt");
  command->add_flag("--no-cache", options->no_cache, "Recompute everything at each step, for comparison");
  add_sampling_options(*command, options->target.generate);
  add_beam_options(*command, options->target);
  command->callback([=] {
    options->has_ids = ids->count() > 0;
    commands.run = [=] { return generate_text(*options, commands.terminal); };
  });
}

}  // namespace kvik::cli
