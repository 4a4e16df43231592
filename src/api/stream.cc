#include "api/speculation_setup.h"
#include "api/stream_state.h"

namespace kvik {
namespace {

constexpr int kMostLogprobs = 1024;

std::shared_ptr<const Model::State> checked(std::shared_ptr<const Model::State> model) {
  model->check_continues_prompts();
  return model;
}

void check_logprobs(const GenerateOptions& options, const api::TargetSetup& setup) {
  if (!options.logprobs) return;
  if (*options.logprobs < 0 || *options.logprobs > kMostLogprobs)
    throw Error(Code::kBadArgument,
                "logprobs is " + std::to_string(*options.logprobs) + "; it must be from 0 to " + std::to_string(kMostLogprobs));
  if (setup.searches_beams())
    throw Error(Code::kBadArgument, "logprobs and beams exclude each other: a beam search does not choose single tokens");
}

}  // namespace

Stream::State::State(std::shared_ptr<const Model::State> of, std::span<const TokenId> prompt, const GenerateOptions& options,
                     const RequestOptions& how)
    : RequestState(how, options.cancelled),
      model(checked(std::move(of))),
      prompt_ids(prompt.begin(), prompt.end()),
      same_prompt_(how.same_prompt != nullptr ? how.same_prompt->state_ : nullptr),
      setup_(api::make_target_setup(*model, api::request_of(options), static_cast<int>(prompt.size()))) {
  engine::Sequence sequence(model->decoder, model->options.context);
  if (model->options.reuse_prefixes) sequence.reuse_prefixes();
  const int capacity = sequence.capacity();
  api::check_prompt(prompt.size(), capacity);
  if (setup_.searches_beams() && !options.use_cache)
    throw Error(Code::kBadArgument, "use_cache = false and beams exclude each other: beams are forks of the cache");
  api::check_speculation(*model, options, setup_);
  check_logprobs(options, setup_);
  setup_.options.logprobs = options.logprobs;
  sequence.reserve(prompt.size() + static_cast<size_t>(setup_.max_new_tokens));
  for (const TokenId token : prompt) sequence.push(token);
  if (setup_.max_new_tokens == 0) {
    end_early(Finish::kLength);
    return;
  }
  std::unique_ptr<engine::Strategy> strategy = api::new_strategy(*model, setup_, prompt.size(), capacity);
  if (!setup_.searches_beams()) sampling_ = static_cast<engine::SampleStrategy*>(strategy.get());
  stream_ = std::make_shared<engine::Stream>(std::move(sequence), std::move(strategy));
  stream_->recompute = !options.use_cache;
  if (sampling_ == nullptr) return;
  stream_->speculation = api::make_speculation(*model, options, setup_, capacity);
  const bool begun = stream_->speculation == nullptr || stream_->speculation->begin(prompt_ids, {nullptr, options.cancelled});
  if (!begun) end_early(Finish::kCancelled);
}

// It never reaches the scheduler.
void Stream::State::end_early(Finish with) {
  finish = with;
  has_prompt = has_ended = true;
  stream_.reset();
}

engine::NextPart Stream::State::next() const {
  if (has_begun_) return engine::NextPart::kNone;
  return same_prompt_ == nullptr || same_prompt_->has_prompt ? engine::NextPart::kReady : engine::NextPart::kLater;
}

engine::Part Stream::State::begin() {
  has_begun_ = true;
  same_prompt_ = nullptr;
  return {.stream = stream_};
}

void Stream::State::generated(const engine::Part& /*part*/) {
  has_prompt = true;
  if (sampling_ == nullptr) return;  // with beams nothing is certain before the end
  {
    const std::lock_guard lock(mutex);
    tokens.push_back(sampling_->last_token());
    ids.push_back(tokens.back().id);
    text += sampling_->piece();
    if (!text.empty()) changed.notify_all();
  }
  notify();
}

void Stream::State::ended(bool /*cancelled*/, std::exception_ptr failure) {
  Finish with = stream_->finish.value_or(Finish::kCancelled);
  std::string rest;
  std::vector<TokenId> found;
  try {
    if (failure == nullptr && sampling_ != nullptr) rest = sampling_->flush();
    if (failure == nullptr && sampling_ == nullptr && stream_->finish) {
      const Hypothesis best = api::describe(*model, setup_, stream_->strategy->targets().front());
      rest = best.text, found = best.ids, with = best.finish;
    }
    stream_->branches.front().drop_pending();
    stream_->branches.front().share_prefix(true);  // later requests can reuse what was computed
  } catch (...) { failure = std::current_exception(); }
  has_prompt = true;
  same_prompt_ = nullptr;
  end(with == Finish::kCancelled, std::move(failure), [&] {
    text += rest;
    if (!found.empty()) ids = std::move(found);
    metrics = measure();
    finish = with;
    stream_.reset();  // frees the cache
  });
}

Metrics Stream::State::measure() const {
  Metrics measured = metrics_of(stream_->timing);
  measured.generated_tokens = static_cast<int>(ids.size());
  for (const engine::Sequence& branch : stream_->branches) measured.cache_bytes += branch.cache_bytes();
  return measured;
}

Stream::Stream(std::shared_ptr<State> state) : state_(std::move(state)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept {
  if (state_ != nullptr && state_ != other.state_) cancel();
  state_ = std::move(other.state_);
  return *this;
}
Stream::~Stream() {
  if (state_ != nullptr) cancel();
}

std::optional<std::string_view> Stream::next() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return !state_->text.empty() || state_->has_ended; });
  if (state_->text.empty()) {
    if (state_->error) std::rethrow_exception(state_->error);
    return std::nullopt;
  }
  state_->tokens.clear();
  state_->piece.clear();
  std::swap(state_->piece, state_->text);
  return state_->piece;
}

StreamUpdate Stream::poll() {
  const std::lock_guard lock(state_->mutex);
  StreamUpdate update{.finish = state_->finish, .timed_out = state_->timed_out, .error = state_->error};
  std::swap(update.text, state_->text);
  std::swap(update.tokens, state_->tokens);
  return update;
}

std::string Stream::text() {
  std::string all;
  while (const std::optional<std::string_view> piece = next()) all += *piece;
  return all;
}

void Stream::cancel() { state_->cancel.store(true, std::memory_order_relaxed); }

const std::vector<TokenId>& Stream::prompt_ids() const { return state_->prompt_ids; }

std::vector<TokenId> Stream::ids() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ids;
}

std::optional<Finish> Stream::finish() const {
  const std::lock_guard lock(state_->mutex);
  return state_->finish;
}

Metrics Stream::metrics() const {
  const std::lock_guard lock(state_->mutex);
  return state_->metrics;
}

}  // namespace kvik
