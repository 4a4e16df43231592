#include "kvik/engine.h"

#include "api/embedding_run.h"
#include "api/scorer.h"
#include "api/stream_state.h"
#include "api/task_state.h"
#include "api/transcriber.h"
#include "api/translator.h"

namespace kvik {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;  // clang 16 does not find it

std::unique_ptr<api::Call<std::vector<Translation>>> translation_of(const Model& model, Sources sources, const TranslateOptions& options) {
  auto call = std::make_unique<api::Translator>(model.state(), options);
  const Overloaded add{[&](const std::string& text) { call->add_text(text); }, [&](const std::vector<TokenId>& ids) { call->add_ids(ids); },
                       [&](const Features& features) { call->add_features(api::to_tensor(features)); }};
  std::visit([&](const auto& list) { std::ranges::for_each(list, add); }, sources);
  return call;
}

std::unique_ptr<api::Call<Transcription>> transcription_of(const Model& model, Recording recording, const TranscribeOptions& options) {
  auto call = std::make_unique<api::Transcriber>(model.state(), options);
  const Overloaded set{[&](const std::filesystem::path& file) { call->set_file(file); },
                       [&](Samples& samples) {
                         const auto kept = std::make_shared<const std::vector<float>>(std::move(samples.values));
                         call->set_sound(api::sound_of(*kept, samples.rate, kept));
                       },
                       [&](const std::vector<Features>& windows) { call->set_windows(api::to_tensors(windows)); }};
  std::visit(set, recording);
  return call;
}

std::unique_ptr<api::Call<std::vector<Embedding>>> embedding_of(const Model& model, Texts texts, const EmbedOptions& options) {
  auto call = std::make_unique<api::EmbeddingRun>(model.state(), options);
  const Overloaded add{[&](const std::string& text) { call->add_text(text); },
                       [&](const std::vector<TokenId>& ids) { call->add_ids(ids); }};
  std::visit([&](const auto& list) { std::ranges::for_each(list, add); }, texts);
  return call;
}

std::unique_ptr<api::Call<Score>> score_of(const Model& model, std::vector<TokenId> ids, const ScoreOptions& options) {
  return std::make_unique<api::Scorer>(model.state(), std::move(ids), options);
}

}  // namespace

struct Engine::State {
  State(Model of, const EngineOptions& options, engine::SchedulerLimits limits)
      : model(std::move(of)), scheduler(model.state()->decoder, limits) {
    if (options.kv_bytes > 0) model.state()->backend().limit_cache_memory(options.kv_bytes);
  }

  // The second one returns nullopt if the queue is full.
  template <class Result>
  Task<Result> submit(std::unique_ptr<api::Call<Result>> call, const RequestOptions& request);
  template <class Result>
  std::optional<Task<Result>> try_submit(std::unique_ptr<api::Call<Result>> call, const RequestOptions& request);

  Model model;
  engine::Scheduler scheduler;
};

Engine::Engine(Model model, const EngineOptions& options) {
  if (options.max_sequences < 1 || options.max_queue < 1) {
    throw Error(Code::kBadArgument, "an engine of " + std::to_string(options.max_sequences) + " sequences and a queue of " +
                                        std::to_string(options.max_queue) + "; both must be at least 1");
  }
  const engine::SchedulerLimits limits{static_cast<size_t>(options.max_sequences), static_cast<size_t>(options.max_queue),
                                       options.max_step_ms, model.state()->options.reuse_prefixes};
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

template <class Result>
Task<Result> Engine::State::submit(std::unique_ptr<api::Call<Result>> call, const RequestOptions& request) {
  auto task = std::make_shared<typename Task<Result>::State>(std::move(call), request);
  scheduler.submit(task);
  return Task<Result>(std::move(task));
}

template <class Result>
std::optional<Task<Result>> Engine::State::try_submit(std::unique_ptr<api::Call<Result>> call, const RequestOptions& request) {
  auto task = std::make_shared<typename Task<Result>::State>(std::move(call), request);
  if (!scheduler.try_submit(task)) return std::nullopt;
  return Task<Result>(std::move(task));
}

TranslationTask Engine::translate(Sources sources, const TranslateOptions& options, const RequestOptions& request) {
  return state_->submit(translation_of(state_->model, std::move(sources), options), request);
}

TranscriptionTask Engine::transcribe(Recording recording, const TranscribeOptions& options, const RequestOptions& request) {
  return state_->submit(transcription_of(state_->model, std::move(recording), options), request);
}

EmbeddingTask Engine::embed(Texts texts, const EmbedOptions& options, const RequestOptions& request) {
  return state_->submit(embedding_of(state_->model, std::move(texts), options), request);
}

ScoreTask Engine::score(std::vector<TokenId> ids, const ScoreOptions& options, const RequestOptions& request) {
  return state_->submit(score_of(state_->model, std::move(ids), options), request);
}

std::optional<TranslationTask> Engine::try_translate(Sources sources, const TranslateOptions& options, const RequestOptions& request) {
  return state_->try_submit(translation_of(state_->model, std::move(sources), options), request);
}

std::optional<TranscriptionTask> Engine::try_transcribe(Recording recording, const TranscribeOptions& options,
                                                        const RequestOptions& request) {
  return state_->try_submit(transcription_of(state_->model, std::move(recording), options), request);
}

std::optional<EmbeddingTask> Engine::try_embed(Texts texts, const EmbedOptions& options, const RequestOptions& request) {
  return state_->try_submit(embedding_of(state_->model, std::move(texts), options), request);
}

std::optional<ScoreTask> Engine::try_score(std::vector<TokenId> ids, const ScoreOptions& options, const RequestOptions& request) {
  return state_->try_submit(score_of(state_->model, std::move(ids), options), request);
}

const Model& Engine::model() const { return state_->model; }

EngineLoad Engine::load() const {
  const engine::Scheduler::Load load = state_->scheduler.load();
  return {static_cast<int>(load.running), static_cast<int>(load.waiting), load.preempted};
}

}  // namespace kvik
