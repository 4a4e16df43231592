#include "kvik/engine.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "api/speculation_setup.h"
#include "api/state.h"
#include "api/target_setup.h"
#include "engine/sample_strategy.h"
#include "engine/scheduler.h"

namespace kvik {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kMostLogprobs = 1024;

std::optional<Clock::time_point> deadline_of(const RequestOptions& request) {
  if (request.timeout.count() <= 0) return std::nullopt;
  return Clock::now() + std::min<std::chrono::milliseconds>(request.timeout, std::chrono::hours(24 * 365));
}

void check_logprobs(const GenerateOptions& options, const api::TargetSetup& setup) {
  if (!options.logprobs) return;
  if (*options.logprobs < 0 || *options.logprobs > kMostLogprobs)
    throw Error(Code::kBadArgument,
                "logprobs is " + std::to_string(*options.logprobs) + "; it must be from 0 to " + std::to_string(kMostLogprobs));
  if (setup.searches_beams()) throw Error(Code::kBadArgument, "logprobs and beams exclude each other: a search has no single tokens");
}

}  // namespace

// Made on the thread that submits; then the stream belongs to the scheduler, and readers see what is behind the mutex.
struct Stream::State final : engine::Request {
  State(std::shared_ptr<const Model::State> of, std::span<const TokenId> prompt, const GenerateOptions& options, const RequestOptions& how);

  engine::Stream& stream() override { return *stream_; }
  bool is_cancelled() const override {
    return cancel.load(std::memory_order_relaxed) || is_late() || (cancelled_by_caller && cancelled_by_caller());
  }
  bool is_late() const { return deadline && Clock::now() >= *deadline; }
  std::string_view user() const override { return request.user; }
  bool is_ready() const override { return same_prompt == nullptr || same_prompt->has_prompt; }
  void generated() override;
  void ended(std::exception_ptr failure) override;
  void end_early(Finish with);
  Metrics measure() const;

  const std::shared_ptr<const Model::State> model;
  const std::vector<TokenId> prompt_ids;
  const std::function<bool()> cancelled_by_caller;
  RequestOptions request;
  const std::optional<Clock::time_point> deadline;
  std::shared_ptr<const State> same_prompt;  // until it joins
  std::atomic<bool> cancel{false};
  std::atomic<bool> has_prompt{false};  // computed, or never will be

  mutable std::mutex mutex;  // of what follows
  std::condition_variable changed;
  std::string text;  // that was not read yet
  std::vector<TokenId> ids;
  std::vector<GeneratedToken> tokens;  // that were not polled yet
  bool timed_out = false;
  Metrics metrics;
  std::optional<Finish> finish;
  std::exception_ptr error;

  std::string piece;  // of the reader

 private:
  api::TargetSetup setup_;
  std::optional<engine::Stream> stream_;        // until it has ended
  engine::SampleStrategy* sampling_ = nullptr;  // null: beams
};

Stream::State::State(std::shared_ptr<const Model::State> of, std::span<const TokenId> prompt, const GenerateOptions& options,
                     const RequestOptions& how)
    : model(std::move(of)),
      prompt_ids(prompt.begin(), prompt.end()),
      cancelled_by_caller(options.cancelled),
      request(how),
      deadline(deadline_of(how)),
      same_prompt(how.same_prompt != nullptr ? how.same_prompt->state_ : nullptr),
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
  stream_.emplace(std::move(sequence), std::move(strategy));
  stream_->recompute = !options.use_cache;
  if (sampling_ == nullptr) return;
  stream_->speculation = api::make_speculation(*model, options, setup_, capacity);
  const bool begun = stream_->speculation == nullptr || stream_->speculation->begin(prompt_ids, {nullptr, options.cancelled});
  if (!begun) end_early(Finish::kCancelled);
}

// It never reaches the scheduler.
void Stream::State::end_early(Finish with) {
  finish = with;
  has_prompt = true;
  stream_.reset();
}

void Stream::State::generated() {
  has_prompt = true;
  if (sampling_ == nullptr) return;  // with beams nothing is certain before the end
  {
    const std::lock_guard lock(mutex);
    tokens.push_back(sampling_->last_token());
    ids.push_back(tokens.back().id);
    text += sampling_->piece();
    if (!text.empty()) changed.notify_all();
  }
  if (request.on_update) request.on_update();
}

void Stream::State::ended(std::exception_ptr failure) {
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
    stream_->branches.front().share_prefix(true);  // what was computed stays known to later requests
  } catch (...) { failure = std::current_exception(); }
  const bool late = with == Finish::kCancelled && is_late();
  {
    const std::lock_guard lock(mutex);
    text += rest;
    if (!found.empty()) ids = std::move(found);
    metrics = measure();
    error = std::move(failure);
    finish = with;
    timed_out = late;
    stream_.reset();  // frees the cache
    changed.notify_all();
  }
  has_prompt = true;
  same_prompt = nullptr;
  // Taken first: what it refers to may refer to this.
  if (const std::function<void()> on_update = std::exchange(request.on_update, nullptr)) on_update();
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
  state_->changed.wait(lock, [&] { return !state_->text.empty() || state_->finish; });
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

struct Engine::State {
  State(Model of, const EngineOptions& options, engine::SchedulerLimits limits)
      : model(std::move(of)), scheduler(model.state()->decoder, limits) {
    if (options.kv_bytes > 0) model.state()->backend().limit_cache_memory(options.kv_bytes);
  }
  Model model;
  engine::Scheduler scheduler;
};

Engine::Engine(Model model, const EngineOptions& options) {
  model.state()->check_continues_prompts();
  if (options.max_sequences < 1 || options.max_queue < 1) {
    throw Error(Code::kBadArgument, "an engine of " + std::to_string(options.max_sequences) + " sequences and a queue of " +
                                        std::to_string(options.max_queue) + "; both must be at least 1");
  }
  const engine::SchedulerLimits limits{static_cast<size_t>(options.max_sequences), static_cast<size_t>(options.max_queue),
                                       options.max_step_ms};
  state_ = std::make_unique<State>(std::move(model), options, limits);
}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Stream Engine::submit(std::string_view prompt, const GenerateOptions& options, const RequestOptions& request) {
  std::vector<TokenId> ids = state_->model.tokenize(prompt);
  if (ids.empty()) ids = state_->model.start_ids();
  return submit(std::span<const TokenId>(ids), options, request);
}

Stream Engine::submit(std::span<const TokenId> prompt, const GenerateOptions& options, const RequestOptions& request) {
  auto stream = std::make_shared<Stream::State>(state_->model.state(), prompt, options, request);
  if (!stream->finish) state_->scheduler.submit(stream);
  return Stream(std::move(stream));
}

std::optional<Stream> Engine::try_submit(std::span<const TokenId> prompt, const GenerateOptions& options, const RequestOptions& request) {
  auto stream = std::make_shared<Stream::State>(state_->model.state(), prompt, options, request);
  if (!stream->finish && !state_->scheduler.try_submit(stream)) return std::nullopt;
  return Stream(std::move(stream));
}

const Model& Engine::model() const { return state_->model; }

EngineLoad Engine::load() const {
  const engine::Scheduler::Load load = state_->scheduler.load();
  return {static_cast<int>(load.running), static_cast<int>(load.waiting), load.preempted};
}

}  // namespace kvik
