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

Score score_windows(Sequence& sequence, std::span<const TokenId> tokens, int window, const Watch& watch) {
  if (tokens.size() < 2)
    throw Error(Code::kBadArgument,
                fmt::format("{} tokens cannot be scored: the first has nothing before it; at least 2 were expected", tokens.size()));
  if (window < 2) throw Error(Code::kBadArgument, fmt::format("a window of {} cannot be scored; 2 or more was expected", window));
  if (sequence.capacity() > 0 && std::min<size_t>(static_cast<size_t>(window), tokens.size()) > static_cast<size_t>(sequence.capacity())) {
    throw Error(Code::kTooLarge, fmt::format("a window of {} tokens is longer than the context of {}", window, sequence.capacity()));
  }
  Score score;
  score.window = window;
  const int n_tokens = static_cast<int>(tokens.size());
  for (int start = 0; start < n_tokens; start += window) {
    const std::span<const TokenId> part =
        tokens.subspan(static_cast<size_t>(start), static_cast<size_t>(std::min(window, n_tokens - start)));
    if (part.size() < 2) break;
    sequence.rewind(0);
    const auto add = [&](int i, std::span<const float> row) {
      score.logprobs.push_back(sample::log_prob_of(row, part[static_cast<size_t>(i) + 1]));
      score.sum_logprob += score.logprobs.back();
    };
    // The last token predicts nothing that is scored, so it does not run.
    if (sequence.append_and_see(part.first(part.size() - 1), add, {nullptr, watch.cancelled}) == AppendStatus::kCancelled) {
      score.finish = Finish::kCancelled;
      break;
    }
    if (watch.progress) watch.progress(std::min(start + window, n_tokens), n_tokens);
  }
  return score;
}

}  // namespace kvik::engine
