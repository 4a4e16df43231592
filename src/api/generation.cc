#include <algorithm>
#include <fmt/format.h>

#include "api/generation_state.h"
#include "api/speculation_setup.h"
#include "api/target_setup.h"

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

Generation::State::State(std::shared_ptr<Session::State> continued, std::span<const TokenId> prompt, const GenerateOptions& options)
    : session(std::move(continued)),
      cancelled(options.cancelled),
      prompt_ids(prompt.begin(), prompt.end()),
      setup(api::make_target_setup(*session->model, api::request_of(options), static_cast<int>(prompt.size()))) {
  api::check_prompt(prompt.size(), session->sequence().capacity());
  if (setup.searches_beams() && !options.use_cache)
    throw Error(Code::kBadArgument, "use_cache = false (--no-cache) and beams exclude each other: beams are forks of the cache");
  api::check_speculation(*session->model, options, setup);
  session->end_generation();
  session->generation = this;
  if (!compute_prompt(options)) return;
  if (setup.max_new_tokens == 0) {
    finish = Finish::kLength;
    return;
  }
  begin(options);
}

Generation::State::~State() {
  if (session->generation == this) session->end_generation();
}

// A draft model computes the prompt after the model; progress then counts the tokens of both.
engine::Watch Generation::State::watch_from(int n_done, const GenerateOptions& options) const {
  if (!options.progress || !api::uses_draft(*session->model, options)) return {options.progress, options.cancelled};
  const int n_all = 2 * static_cast<int>(prompt_ids.size());
  return {[=, report = options.progress](int done, int) { report(n_done + done, n_all); }, options.cancelled};
}

// Leading tokens that the session holds already are kept. False if it was cancelled.
bool Generation::State::compute_prompt(const GenerateOptions& options) {
  engine::Sequence& sequence = session->sequence();
  engine::Stream& stream = session->stream;
  stream.timing = {};
  stream.started = std::chrono::steady_clock::now();
  const std::span<const TokenId> held = sequence.tokens();
  int n_shared = static_cast<int>(std::mismatch(held.begin(), held.end(), prompt_ids.begin(), prompt_ids.end()).first - held.begin());
  if (n_shared < sequence.length() && !session->model->traits().can_rewind) n_shared = 0;
  sequence.rewind(n_shared);
  stream.timing.n_reused = n_shared;
  sequence.reserve(prompt_ids.size() + static_cast<size_t>(setup.max_new_tokens));
  const std::span<const TokenId> rest = std::span(prompt_ids).subspan(static_cast<size_t>(n_shared));
  const AppendStatus status = session->model->decoder->append(stream, rest, watch_from(n_shared, options));
  if (status == AppendStatus::kCancelled) finish = Finish::kCancelled;
  if (status == AppendStatus::kNoMemory) throw session->model->decoder->no_memory();
  // A prompt of one token counts as a prompt.
  stream.timing.prefill_ms += std::exchange(stream.timing.decode_ms, 0.0);
  stream.timing.n_prompt += std::exchange(stream.timing.n_decoded, 0);
  return status == AppendStatus::kDone;
}

void Generation::State::begin(const GenerateOptions& options) {
  const Model::State& model = *session->model;
  const int capacity = session->sequence().capacity();
  std::unique_ptr<engine::Strategy> strategy = api::new_strategy(model, setup, prompt_ids.size(), capacity);
  if (setup.searches_beams()) {
    beams.emplace(session->sequence().fork(), std::move(strategy));
    beams->started = session->stream.started;
    return;
  }
  sampling = static_cast<engine::SampleStrategy*>(strategy.get());
  ids.reserve(std::min<size_t>(static_cast<size_t>(setup.max_new_tokens), 4096));
  session->stream.strategy = std::move(strategy);
  session->stream.speculation = api::make_speculation(model, options, setup, capacity);
  const bool begun = session->stream.speculation == nullptr ||
                     session->stream.speculation->begin(prompt_ids, watch_from(static_cast<int>(prompt_ids.size()), options));
  if (!begun) finish = Finish::kCancelled;
  session->stream.recompute = !options.use_cache;
}

// One token; `piece` gets the text that it made certain.
void Generation::State::next_token() {
  engine::Stream& stream = session->stream;
  engine::Stream* const streams[] = {&stream};
  const int n_before = stream.timing.n_generated;
  while (!stream.finish && stream.timing.n_generated == n_before) {
    if (cancelled && cancelled()) {
      finish = Finish::kCancelled;
      piece += sampling->flush();
      return;
    }
    if (session->model->decoder->step(streams) == engine::StepStatus::kNoMemory) throw session->model->decoder->no_memory();
  }
  if (stream.error) std::rethrow_exception(std::exchange(stream.error, nullptr));
  ids.push_back(sampling->last_token().id);
  piece += sampling->piece();
  finish = stream.finish;
  if (finish) piece += sampling->flush();
}

// All of it: with beams nothing is certain before the end.
void Generation::State::search() {
  engine::Stream* const alone[] = {&*beams};
  session->model->decoder->finish(alone, cancelled);
  finish = beams->finish;
  if (finish == Finish::kCancelled) return;
  const Hypothesis best = api::describe(*session->model, setup, beams->strategy->targets().front());
  ids = best.ids;
  piece = best.text;
  finish = best.finish;
}

std::optional<std::string_view> Generation::next() {
  State& state = *state_;
  if (state.ended) return std::nullopt;
  state.piece.clear();
  if (!state.finish) {
    if (state.session->generation != &state)
      throw Error(Code::kBadArgument, "the session was changed while a generation continued it; start a new generation");
    state.beams ? state.search() : state.next_token();
  }
  state.ended = state.finish.has_value();
  if (state.ended) state.metrics = metrics();
  if (state.ended && state.session->generation == &state) state.session->end_generation();
  return state.piece;
}

Generation::Iterator& Generation::Iterator::operator++() {
  // Empty pieces (half a character, the possible beginning of a stop text) are of no use to a loop.
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
Finish Generation::finish() const { return state_->finish.value_or(Finish::kCancelled); }

Metrics Generation::metrics() const {
  if (state_->metrics) return *state_->metrics;
  const engine::Timing& prompt = state_->session->stream.timing;
  Metrics metrics = metrics_of(state_->beams ? state_->beams->timing : prompt);
  metrics.prefill_ms = prompt.prefill_ms;
  metrics.prompt_tokens = prompt.n_prompt;
  metrics.reused_tokens = prompt.n_reused;
  metrics.generated_tokens = static_cast<int>(state_->ids.size());
  metrics.cache_bytes = state_->session->sequence().cache_bytes();
  for (size_t i = 0; state_->beams && i < state_->beams->branches.size(); ++i)
    metrics.cache_bytes += state_->beams->branches[i].cache_bytes();
  return metrics;
}

}  // namespace kvik
