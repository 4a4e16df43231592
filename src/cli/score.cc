#include <cmath>
#include <fmt/format.h>

#include "base/json.h"
#include "base/mapped_file.h"
#include "cli/encode_stream.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/validators.h"

namespace kvik::cli {
namespace {

struct ScoreCommand {
  ModelOptions model;
  std::string file;
  std::string text;
  std::string ids;
  bool has_text = false, has_ids = false;
  int window = 0;
};

constexpr int kDefaultWindow = 512;

// Scores windows as their tokens arrive; each window is scored by itself.
class ScoreRun {
 public:
  ScoreRun(const Model& model, const ScoreCommand& options, const Terminal& terminal)
      : model_(model), options_(options), terminal_(terminal), progress_(terminal, "tokens scored") {
    const int capacity = model.session().capacity();
    window_ = options.window > 0 ? options.window : kDefaultWindow;
    if (options.window == 0 && capacity > 0) window_ = std::min(window_, capacity);
  }

  int run() {
    terminal_.log().info("scoring");
    read_tokens();
    if (n_tokens_ < 2 || !waiting_.empty()) score_waiting();  // which throws if one token is too few
    progress_.clear();
    print_score();
    return 0;
  }

 private:
  void read_tokens() {
    if (options_.has_ids) return take(parse_ids(options_.ids));
    const auto encode = [&](std::string_view text, EncodeStream::Part) { return model_.tokenize(text, false); };
    EncodeStream stream(encode, [&](std::span<const TokenId> ids) { take(ids); });
    if (options_.has_text) {
      stream.push(options_.text);
    } else if (options_.file.empty() || options_.file == "-") {
      StandardInput input;
      for (std::string_view part = input.next_part(); !part.empty(); part = input.next_part()) stream.push(part);
    } else {
      push_file(stream);
    }
    stream.finish();
  }

  void push_file(EncodeStream& stream) const {
    constexpr size_t kFilePartBytes = 1 << 20;
    const std::shared_ptr<const MappedFile> file = MappedFile::open(options_.file);
    for (std::string_view left = file->text(); !left.empty(); left.remove_prefix(std::min(kFilePartBytes, left.size())))
      stream.push(left.substr(0, kFilePartBytes));
  }

  void take(std::span<const TokenId> ids) {
    for (const TokenId id : ids) {
      if (id < 0 || id >= model_.vocab_size())
        throw Error(Code::kBadArgument, fmt::format("token id {} is outside the vocabulary of {}", id, model_.vocab_size()));
      waiting_.push_back(id);
      ++n_tokens_;
      if (static_cast<int>(waiting_.size()) == window_) score_waiting();
    }
  }

  // A last window of one token has nothing to score.
  void score_waiting() {
    if (!(waiting_.size() == 1 && n_tokens_ > 1) && !Interrupt::happened()) {
      const Score score = model_.score(waiting_, {.window = window_});
      sum_ += score.sum_logprob;
      n_scored_ += score.logprobs.size();
      if (terminal_.json) logprobs_.insert(logprobs_.end(), score.logprobs.begin(), score.logprobs.end());
    }
    waiting_.clear();
    progress_.show(static_cast<int>(n_scored_));
  }

  void print_score() const {
    const double perplexity = std::exp(-sum_ / static_cast<double>(n_scored_));
    const Finish finish = Interrupt::happened() ? Finish::kCancelled : Finish::kStop;
    if (!terminal_.json) {
      print_result("tokens       {} ({} scored, windows of {})\nsum of logs  {:.4f}\nperplexity   {:.4f}\n", n_tokens_, n_scored_, window_,
                   sum_, perplexity);
      return;
    }
    const Json head = {{"tokens", n_tokens_}, {"scored", n_scored_}, {"window", window_}, {"finish", finish_name(finish)}};
    const Json tail = {{"sum_logprob", sum_}, {"perplexity", perplexity}, {"backend", model_.backend()}};
    const std::string before = head.dump(), after = tail.dump();
    print_result("{},\"logprobs\":[", before.substr(0, before.size() - 1));
    const char* separator = "";
    for (const double logprob : logprobs_) print_result("{}{}", std::exchange(separator, ","), Json(logprob).dump());
    print_result("],{}\n", after.substr(1));
  }

  const Model& model_;
  const ScoreCommand& options_;
  const Terminal& terminal_;
  Progress progress_;
  int window_ = 0;
  std::vector<TokenId> waiting_;  // less than a window
  size_t n_tokens_ = 0, n_scored_ = 0;
  double sum_ = 0;
  std::vector<double> logprobs_;  // for --json
};

}  // namespace

void add_score(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("score", "Score a text: log-probabilities and perplexity");
  auto options = std::make_shared<ScoreCommand>();
  add_model_options(*command, options->model, commands.terminal);
  CLI::Option* file = command->add_option("FILE", options->file, "Text file to score; - or nothing reads standard input")->option_text(" ");
  CLI::Option* text = command->add_option("--text", options->text, "Text to score, instead of a file")->option_text("TEXT");
  CLI::Option* ids = command->add_option("--ids", options->ids, "Token ids to score, instead of text: 1,2,3")->option_text("IDS");
  ids->excludes(text)->excludes(file);
  text->excludes(file);
  command
      ->add_option("--window", options->window,
                   "Tokens per window; windows are scored independently (default: 512, or the context if smaller)")
      ->check(between(2, 1 << 30))
      ->option_text("N");
  command->callback([=] {
    options->has_text = text->count() > 0;
    options->has_ids = ids->count() > 0;
    commands.run = [=] {
      const Model model = load_model(options->model, commands.terminal);
      const Interrupt interrupt;
      return ScoreRun(model, *options, commands.terminal).run();
    };
  });
}

}  // namespace kvik::cli
