#include "engine/generator.h"

#include <algorithm>
#include <fmt/format.h>

#include "kvik/error.h"
#include "sample/choice.h"

namespace kvik::engine {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

}  // namespace

Generator::Generator(Sequence& sequence, const sample::Sampler& sampler, sample::Rng& rng, GeneratorOptions options)
    : sequence_(sequence), sampler_(sampler), rng_(rng), options_(std::move(options)), started_(Clock::now()) {}

void Generator::start(std::vector<TokenId> prompt) {
  if (prompt.empty()) throw Error(Code::kBadArgument, "the prompt is empty; at least one token was expected");
  const int n_prompt = static_cast<int>(prompt.size());
  if (sequence_.capacity() > 0 && n_prompt > sequence_.capacity()) {
    throw Error(Code::kTooLarge, fmt::format("the prompt has {} tokens; the context has room for {}", n_prompt, sequence_.capacity()));
  }
  const std::span<const TokenId> held = sequence_.tokens();
  int n_shared = static_cast<int>(std::mismatch(held.begin(), held.end(), prompt.begin(), prompt.end()).first - held.begin());
  if (n_shared < sequence_.length() && !sequence_.backend().traits().can_rewind) n_shared = 0;
  sequence_.rewind(n_shared);
  timing_.n_reused = n_shared;
  timing_.n_prompt = n_prompt - n_shared;
  tokens_ = std::move(prompt);
  n_prompt_ = tokens_.size();
  n_left_ = options_.max_new_tokens;
  if (n_left_ <= 0) finish_ = Finish::kLength;

  const Appended appended = sequence_.append(std::span(tokens_).subspan(static_cast<size_t>(n_shared)), options_.watch);
  if (appended == Appended::kCancelled) finish_ = Finish::kCancelled;
  timing_.prefill_ms = ms_since(started_);
}

bool Generator::append_last() {
  if (!options_.use_cache) {
    sequence_.rewind(0);
    return sequence_.append(tokens_) == Appended::kDone;
  }
  return sequence_.append({&tokens_.back(), 1}) == Appended::kDone;
}

std::optional<TokenId> Generator::next() {
  if (finish_) return std::nullopt;
  if (options_.watch.cancelled && options_.watch.cancelled()) {
    finish_ = Finish::kCancelled;
    return std::nullopt;
  }
  // The token chosen last is computed only now that another one is wanted.
  if (timing_.n_generated > 0 && !append_last()) {
    finish_ = Finish::kLength;  // the context is full
    return std::nullopt;
  }
  const std::optional<TokenId> token = choose();
  if (timing_.n_generated == 0) {
    timing_.first_token_ms = ms_since(started_);
  } else {
    timing_.decode_ms = ms_since(started_) - timing_.first_token_ms;
  }
  tokens_.push_back(*token);
  ++timing_.n_generated;
  if (std::find(options_.stop_ids.begin(), options_.stop_ids.end(), *token) != options_.stop_ids.end()) {
    finish_ = Finish::kStop;
  } else if (--n_left_ == 0) {
    finish_ = Finish::kLength;
  }
  return token;
}

std::optional<TokenId> Generator::choose() {
  const std::span<const float> logits = sequence_.logits();
  row_.assign(logits.begin(), logits.end());
  const sample::History history{tokens_, n_prompt_, n_prompt_ + static_cast<size_t>(options_.max_new_tokens)};
  const std::optional<TokenId> token = sampler_.sample(row_, history, rng_, workspace_);
  if (!token) throw Error(Code::kBadModel, fmt::format("no next token can be chosen: {}", sample::why_no_choice(logits)));
  return token;
}

}  // namespace kvik::engine
