#include "sample/likeliest.h"

#include <algorithm>
#include <limits>

#include "sample/log_softmax.h"

namespace kvik::sample {
namespace {

bool is_likelier(const TokenLogprob& a, const TokenLogprob& b) { return a.logprob > b.logprob || (a.logprob == b.logprob && a.id < b.id); }

}  // namespace

void find_likeliest(std::span<const float> logits, size_t n, GeneratedToken& chosen) {
  const Normalizer normalizer = normalizer_of(logits);
  const auto logprob_of = [&](float logit) {
    const double above = logit == normalizer.largest ? 0.0 : static_cast<double>(logit) - static_cast<double>(normalizer.largest);
    return above - normalizer.log_sum;
  };
  chosen.logprob = logprob_of(logits[static_cast<size_t>(chosen.id)]);
  std::vector<TokenLogprob>& top = chosen.top;  // a heap: its first element is the least likely
  top.clear();
  for (size_t i = 0; n > 0 && i < logits.size(); ++i) {
    if (!(logits[i] > -std::numeric_limits<float>::infinity())) continue;  // nor NaN
    const TokenLogprob candidate{static_cast<TokenId>(i), static_cast<double>(logits[i])};
    if (top.size() == n) {
      if (!is_likelier(candidate, top.front())) continue;
      std::ranges::pop_heap(top, is_likelier);
      top.pop_back();
    }
    top.push_back(candidate);
    std::ranges::push_heap(top, is_likelier);
  }
  std::ranges::sort_heap(top, is_likelier);
  for (TokenLogprob& token : top) token.logprob = logprob_of(static_cast<float>(token.logprob));
}

}  // namespace kvik::sample
