#include <fmt/format.h>
#include <random>

#include "api/state.h"
#include "kv/cache_file.h"
#include "sample/choice.h"

namespace kvik {

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Appended Session::append(std::span<const TokenId> tokens) {
  const auto start = std::chrono::steady_clock::now();
  const engine::Appended result = state_->sequence.append(tokens);
  if (result == engine::Appended::kContextFull) return Appended::kContextFull;
  state_->metrics.prefill_ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  state_->metrics.prompt_tokens += static_cast<int>(tokens.size());
  return Appended::kDone;
}

std::span<const float> Session::logits() { return state_->sequence.logits(); }

TokenId Session::sample(const SampleOptions& options) {
  const sample::Sampler sampler(state_->model->sampling(options), static_cast<size_t>(state_->model->backend->traits().vocab));
  // The same seed goes on where it was; another one begins anew.
  if (!state_->rng || (options.seed && options.seed != state_->seed)) {
    state_->seed = options.seed ? *options.seed : std::random_device()();
    state_->rng.emplace(*state_->seed);
  }
  const std::span<const float> logits = state_->sequence.logits();
  state_->row.assign(logits.begin(), logits.end());
  const std::span<const TokenId> tokens = state_->sequence.tokens();
  const std::optional<TokenId> token = sampler.sample(state_->row, {tokens, tokens.size(), 0}, *state_->rng, state_->workspace);
  if (!token) throw Error(Code::kBadModel, fmt::format("no next token can be chosen: {}", sample::why_no_choice(logits)));
  return *token;
}

Session Session::fork() const {
  return Session(
      std::make_unique<State>(State{state_->model, state_->sequence.fork(), {}, {}, state_->rng, state_->seed, state_->metrics}));
}

void Session::rewind(int length) { state_->sequence.rewind(length); }

void Session::save(const std::filesystem::path& file) const {
  const engine::Sequence& sequence = state_->sequence;
  kv::SavedCache saved{.model = state_->model->identity(), .form = state_->model->backend->traits().cache_form};
  saved.tokens.assign(sequence.tokens().begin(), sequence.tokens().end());
  saved.logits.assign(sequence.known_logits().begin(), sequence.known_logits().end());
  if (state_->rng) saved.random = {*state_->seed, state_->rng->position()};
  saved.contents = sequence.contents();
  kv::write_cache(file, saved);
}

int Session::length() const { return state_->sequence.length(); }
int Session::capacity() const { return state_->sequence.capacity(); }
std::span<const TokenId> Session::tokens() const { return state_->sequence.tokens(); }

Metrics Session::metrics() const {
  Metrics metrics = state_->metrics;
  metrics.cache_bytes = state_->sequence.cache_bytes();
  return metrics;
}

}  // namespace kvik
