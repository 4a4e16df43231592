#include "api/state.h"

namespace kvik {

std::string_view finish_name(Finish finish) {
  switch (finish) {
    case Finish::kStop: return "stop";
    case Finish::kLength: return "length";
    case Finish::kCancelled: break;
  }
  return "cancelled";
}

Generation::Generation(std::unique_ptr<State> state) : state_(std::move(state)) {}
Generation::Generation(Generation&&) noexcept = default;
Generation& Generation::operator=(Generation&&) noexcept = default;
Generation::~Generation() = default;

std::optional<std::string_view> Generation::next() {
  State& state = *state_;
  if (state.ended) return std::nullopt;
  const std::optional<TokenId> token = state.generator->next();
  state.piece.clear();
  const std::vector<TokenId>& ends = state.generator->options().stop_ids;
  if (token) {
    state.ids.push_back(*token);
    const bool is_end = std::find(ends.begin(), ends.end(), *token) != ends.end();
    if (!is_end && state.stream) state.piece = state.stops.push(state.stream->push(*token));
  }
  if (state.stops.stopped()) state.generator->stop();
  if (state.generator->finish()) {
    state.ended = true;
    if (state.stream && !state.stops.stopped()) {
      state.piece += state.stops.push(state.stream->flush());
      state.piece += state.stops.flush();
    }
  }
  return state.piece;
}

Generation::Iterator& Generation::Iterator::operator++() {
  // Empty pieces (half a character, a held back beginning of a stop text) are of no use to a loop.
  while (const std::optional<std::string_view> piece = generation_->next()) {
    if (piece->empty()) continue;
    piece_ = *piece;
    return *this;
  }
  generation_ = nullptr;
  return *this;
}

std::string Generation::text() {
  std::string all;
  while (const std::optional<std::string_view> piece = next()) all += *piece;
  return all;
}

const std::vector<TokenId>& Generation::prompt_ids() const { return state_->prompt_ids; }
const std::vector<TokenId>& Generation::ids() const { return state_->ids; }

Finish Generation::finish() const {
  switch (state_->generator->finish().value_or(engine::Finish::kCancelled)) {
    case engine::Finish::kStop: return Finish::kStop;
    case engine::Finish::kLength: return Finish::kLength;
    case engine::Finish::kCancelled: break;
  }
  return Finish::kCancelled;
}

Metrics Generation::metrics() const {
  const engine::Timing& timing = state_->generator->timing();
  return {.prefill_ms = timing.prefill_ms,
          .first_token_ms = timing.first_token_ms,
          .decode_ms = timing.decode_ms,
          .prompt_tokens = timing.n_prompt,
          .reused_tokens = timing.n_reused,
          .generated_tokens = timing.n_generated,
          .cache_bytes = state_->sequence->cache_bytes()};
}

}  // namespace kvik
