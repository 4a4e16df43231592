#include "engine/score.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "kvik/error.h"
#include "sample/log_softmax.h"

namespace kvik {

double Score::perplexity() const { return std::exp(-sum_logprob / static_cast<double>(logprobs.size())); }

}  // namespace kvik

namespace kvik::engine {
namespace {

constexpr int kDefaultWindow = 512;

class ScoreStrategy final : public Strategy {
 public:
  explicit ScoreStrategy(std::span<const TokenId> window) : logprobs(window.size() - 1), window_(window.begin(), window.end()) {}

  bool wants_every_row() const override { return true; }
  void see(int position, std::span<const float> logits) override {
    const auto at = static_cast<size_t>(position);  // seen twice if the stream was preempted
    logprobs[at] = sample::log_prob_of(logits, window_[at + 1]);
  }
  std::span<const sample::Continuation> advance(std::span<const Sequence>, Workers&) override { return {}; }

  std::vector<double> logprobs;

 private:
  std::vector<TokenId> window_;
};

}  // namespace

ScoreWork::ScoreWork(std::shared_ptr<Decoder> decoder, int context, std::vector<TokenId> tokens, const ScoreOptions& options)
    : decoder_(std::move(decoder)), context_(context), tokens_(std::move(tokens)), progress_(options.progress) {
  if (options.window < 0) throw Error(Code::kBadArgument, fmt::format("a window is {} tokens; 0 or more was expected", options.window));
  const int capacity = Sequence(decoder_, context_).capacity();
  int window = options.window > 0 ? options.window : kDefaultWindow;
  if (options.window == 0 && capacity > 0) window = std::min(window, capacity);
  if (tokens_.size() < 2)
    throw Error(Code::kBadArgument,
                fmt::format("{} tokens cannot be scored, because the first has no context; at least 2 were expected", tokens_.size()));
  if (window < 2) throw Error(Code::kBadArgument, fmt::format("a window of {} cannot be scored; 2 or more was expected", window));
  if (capacity > 0 && std::min<size_t>(static_cast<size_t>(window), tokens_.size()) > static_cast<size_t>(capacity))
    throw Error(Code::kTooLarge, fmt::format("a window of {} tokens is longer than the context of {}", window, capacity));
  score_.window = window;
}

std::span<const TokenId> ScoreWork::window_at(size_t first) const {
  return std::span(tokens_).subspan(first, std::min(static_cast<size_t>(score_.window), tokens_.size() - first));
}

NextPart ScoreWork::next() const {
  if (is_running_) return NextPart::kLater;
  return next_ + 1 < tokens_.size() ? NextPart::kReady : NextPart::kNone;  // one token alone has nothing before it
}

// The last token predicts nothing that is scored, so it does not run.
Part ScoreWork::begin() {
  const std::span<const TokenId> window = window_at(next_);
  Sequence sequence(decoder_, context_);
  for (const TokenId token : window.first(window.size() - 1)) sequence.push(token);
  is_running_ = true;
  return {.index = next_, .stream = std::make_shared<Stream>(std::move(sequence), std::make_unique<ScoreStrategy>(window))};
}

void ScoreWork::finished(const Part& part) {
  for (const double logprob : static_cast<const ScoreStrategy&>(*part.stream->strategy).logprobs) {
    score_.logprobs.push_back(logprob);
    score_.sum_logprob += logprob;
  }
  next_ += window_at(next_).size();
  is_running_ = false;
  if (progress_) progress_(static_cast<int>(next_), static_cast<int>(tokens_.size()));
}

}  // namespace kvik::engine
