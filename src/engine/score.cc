#include "engine/score.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "kvik/error.h"
#include "sample/log_softmax.h"

namespace kvik::engine {

double Score::perplexity() const { return std::exp(-sum / static_cast<double>(logprobs.size())); }

Score score_windows(Sequence& sequence, std::span<const TokenId> tokens, int window, const AppendWatch& watch) {
  if (tokens.size() < 2)
    throw Error(Code::kBadArgument,
                fmt::format("{} tokens cannot be scored: the first has nothing before it; at least 2 were expected", tokens.size()));
  if (window < 2) throw Error(Code::kBadArgument, fmt::format("a window of {} cannot be scored; 2 or more was expected", window));
  if (sequence.capacity() > 0 && std::min<size_t>(static_cast<size_t>(window), tokens.size()) > static_cast<size_t>(sequence.capacity())) {
    throw Error(Code::kTooLarge, fmt::format("a window of {} tokens is longer than the context of {}", window, sequence.capacity()));
  }
  Score score;
  const int n_tokens = static_cast<int>(tokens.size());
  for (int start = 0; start < n_tokens; start += window) {
    const std::span<const TokenId> part =
        tokens.subspan(static_cast<size_t>(start), static_cast<size_t>(std::min(window, n_tokens - start)));
    if (part.size() < 2) break;
    sequence.rewind(0);
    // The last token predicts nothing that is scored, so it need not run.
    const Appended appended =
        sequence.append_and_see(part.first(part.size() - 1),
                                [&](int i, std::span<const float> row) {
                                  score.logprobs.push_back(sample::log_prob_of(row, part[static_cast<size_t>(i) + 1]));
                                  score.sum += score.logprobs.back();
                                },
                                {nullptr, watch.cancelled});
    if (appended == Appended::kCancelled) throw Error(Code::kBadArgument, "scoring was interrupted");
    if (watch.progress) watch.progress(std::min(start + window, n_tokens), n_tokens);
  }
  return score;
}

}  // namespace kvik::engine
