#include "engine/score.h"

#include <fmt/format.h>
#include <iostream>

#include "api/state.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "cli/model_options.h"
#include "cli/progress.h"

namespace kvik::cli {
namespace {

struct ScoreOptions {
  ModelOptions model;
  std::string file;
  std::string text;
  std::string ids;
  int window = 0;
};

constexpr int kDefaultWindow = 512;

std::vector<TokenId> tokens_of(const Model& model, const ScoreOptions& options) {
  if (!options.ids.empty()) return parse_ids(options.ids);
  if (!options.text.empty()) return model.tokenize(options.text, false);
  if (options.file.empty() || options.file == "-") return model.tokenize(read_standard_input(), false);
  return model.tokenize(MappedFile::open(options.file)->text(), false);
}

int score(const ScoreOptions& options, const Terminal& terminal) {
  const Model model = load_model(options.model, terminal);
  const std::vector<TokenId> tokens = tokens_of(model, options);
  for (const TokenId id : tokens) {
    if (id < 0 || id >= model.vocab_size())
      throw Error(Code::kBadArgument, fmt::format("token id {} is outside the vocabulary of {}", id, model.vocab_size()));
  }
  engine::Sequence sequence(ModelAccess::state(model).backend, options.model.load.context);
  int window = options.window > 0 ? options.window : kDefaultWindow;
  if (options.window == 0 && sequence.capacity() > 0) window = std::min(window, sequence.capacity());
  const Interrupt interrupt;
  Progress progress(terminal, "scoring");
  const engine::Score result = engine::score_windows(
      sequence, tokens, window, {[&](int done, int total) { progress.show(done, total); }, [] { return Interrupt::happened(); }});
  progress.clear();
  if (terminal.json) {
    const Json json = {{"tokens", tokens.size()},     {"scored", result.logprobs.size()}, {"window", window},
                       {"logprobs", result.logprobs}, {"sum_logprob", result.sum},        {"perplexity", result.perplexity()},
                       {"backend", model.backend()}};
    std::cout << json.dump() << "\n";
    return 0;
  }
  fmt::print("tokens       {} ({} scored, windows of {})\nsum of logs  {:.4f}\nperplexity   {:.4f}\n", tokens.size(),
             result.logprobs.size(), window, result.sum, result.perplexity());
  return 0;
}

}  // namespace

void add_score(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("score", "How likely a model finds a text: log-probabilities and perplexity");
  auto options = std::make_shared<ScoreOptions>();
  add_model_options(*command, options->model, commands.terminal);
  command->add_option("FILE", options->file, "The text; - or nothing reads standard input")->option_text(" ");
  command->add_option("--text", options->text, "A text instead of a file")->option_text("TEXT");
  command->add_option("--ids", options->ids, "Token ids instead of text: 1,2,3")->option_text("IDS");
  command
      ->add_option("--window", options->window,
                   "Tokens that are scored together, each window alone (512, or the context where that is smaller)")
      ->check(CLI::Range(2, 1 << 30))
      ->option_text("N");
  command->callback([=] { commands.run = [=] { return score(*options, commands.terminal); }; });
}

}  // namespace kvik::cli
