#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kvik/kvik.h"

// Continuous batching: runs many requests together, each with the same result as alone.
namespace kvik {

struct EngineOptions {
  int max_sequences = 64;   // generations, sources and windows that run together; more have to wait
  int max_queue = 1024;     // waiting requests
  size_t kv_bytes = 0;      // native backend only: replaces LoadOptions::kv_bytes of the model; 0: keeps it
  double max_step_ms = 50;  // target for the time between two tokens: prompts, sources and texts are split into chunks to meet it
};

class Stream;

// How a request is scheduled among others.
struct RequestOptions {
  std::string user;                      // for fairness: the next request to run is of the user with the fewest running requests
  std::chrono::milliseconds timeout{0};  // from submit(); the request is then cancelled. 0: none
  const Stream* same_prompt = nullptr;   // generations: wait until this stream has computed its prompt, and reuse it
  std::function<void()> on_update;       // poll() has new data or a task is done. Called on the engine's thread: must not block
};

// What a stream has produced since the last poll().
struct StreamUpdate {
  std::string text;                    // whole UTF-8 characters
  std::vector<GeneratedToken> tokens;  // with logprobs only if GenerateOptions::logprobs is set; none for beams
  std::optional<Finish> finish;        // set: this was the last update
  bool timed_out = false;              // ended by RequestOptions::timeout; `finish` is kCancelled
  std::exception_ptr error;            // set if the generation failed; `finish` is set too
};

struct EngineLoad {
  int running = 0;        // generations, sources and windows
  int waiting = 0;        // requests that have not begun
  int64_t preempted = 0;  // how often a cache was freed for other requests and recomputed later
};

// One generation of an engine. Used by one thread at a time, except cancel(). Destroying it cancels the generation. It may outlive the
// engine.
class [[nodiscard]] Stream {
 public:
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  // Waits for the next piece of text: whole UTF-8 characters, valid until the next call; nullopt at the end. Throws if the generation
  // failed.
  std::optional<std::string_view> next();
  std::string text();  // waits for the end; returns the text that has not been read yet
  // Returns new text and tokens without waiting. Does not throw.
  StreamUpdate poll();

  // Any thread. The generation ends and frees its cache within one step.
  void cancel();

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = const std::string_view&;

    reference operator*() const { return *piece_; }
    Iterator& operator++() {
      piece_ = stream_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !piece_; }

   private:
    friend class Stream;
    explicit Iterator(Stream* stream) : stream_(stream), piece_(stream->next()) {}
    Stream* stream_;
    std::optional<std::string_view> piece_;
  };
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

  const std::vector<TokenId>& prompt_ids() const;
  std::vector<TokenId> ids() const;      // generated so far
  std::optional<Finish> finish() const;  // set when the generation has ended
  Metrics metrics() const;               // first_token_ms counts from submit()

  struct State;
  explicit Stream(std::shared_ptr<State> state);

 private:
  friend class Engine;
  std::shared_ptr<State> state_;
};

// A request of an engine that returns one result at its end. Used by one thread at a time, except cancel(). Destroying it cancels the
// request. It may outlive the engine.
template <class Result>
class [[nodiscard]] Task {
 public:
  Task(Task&&) noexcept;
  Task& operator=(Task&&) noexcept;
  ~Task();

  bool is_done() const;
  // Waits for the end and returns the result; may be called once. If the request was cancelled, the result is partial, in the same form
  // as the corresponding function of Model returns it. Throws if the request failed.
  Result get();
  bool was_cancelled() const;  // ended early: cancelled, timed out, or the engine was destroyed
  bool timed_out() const;      // ended by RequestOptions::timeout

  // Any thread. The request ends and frees its memory within one step.
  void cancel();

  struct State;
  explicit Task(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;
};
using TranslationTask = Task<std::vector<Translation>>;
using TranscriptionTask = Task<Transcription>;
using EmbeddingTask = Task<std::vector<Embedding>>;
using ScoreTask = Task<Score>;

// Owned by the request; the same inputs as the functions of Model.
using Sources = std::variant<std::vector<std::string>, std::vector<std::vector<TokenId>>, std::vector<Features>>;
using Texts = std::variant<std::vector<std::string>, std::vector<std::vector<TokenId>>>;
struct Samples {
  std::vector<float> values;
  int rate = 16000;  // per second
};
using Recording = std::variant<std::filesystem::path, Samples, std::vector<Features>>;  // a file must not change until the task is done

// Runs requests of one model on its own thread: generations, translations, transcriptions, embeddings and scores, as far as the model
// supports them. A request joins between two steps and leaves when it is done. Long prompts are computed in chunks that share a run with
// the steps of other requests; encoders and embedders run between two steps, in chunks that keep steps short. If the KV cache runs out of
// memory, the request that joined last is preempted and recomputed later, with the same result. Any thread may submit. The destructor
// cancels running requests.
class Engine {
 public:
  explicit Engine(Model model, const EngineOptions& options = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  // Block while the queue is full. Bad arguments throw here, as in the functions of Model. Callbacks in the options are called on the
  // engine's thread: they must be fast and must not call the engine. GenerateOptions::progress is not called.
  Stream submit(std::string_view prompt, const GenerateOptions& options = {}, const RequestOptions& request = {});
  Stream submit(std::span<const TokenId> prompt, const GenerateOptions& options = {}, const RequestOptions& request = {});
  // At most `batch` sources, or windows of a recording, run together.
  TranslationTask translate(Sources sources, const TranslateOptions& options = {}, const RequestOptions& request = {});
  TranscriptionTask transcribe(Recording recording, const TranscribeOptions& options = {}, const RequestOptions& request = {});
  EmbeddingTask embed(Texts texts, const EmbedOptions& options = {}, const RequestOptions& request = {});
  ScoreTask score(std::vector<TokenId> ids, const ScoreOptions& options = {}, const RequestOptions& request = {});

  // The same without blocking: nullopt if the queue is full.
  std::optional<Stream> try_submit(std::span<const TokenId> prompt, const GenerateOptions& options = {},
                                   const RequestOptions& request = {});
  std::optional<TranslationTask> try_translate(Sources sources, const TranslateOptions& options = {}, const RequestOptions& request = {});
  std::optional<TranscriptionTask> try_transcribe(Recording recording, const TranscribeOptions& options = {},
                                                  const RequestOptions& request = {});
  std::optional<EmbeddingTask> try_embed(Texts texts, const EmbedOptions& options = {}, const RequestOptions& request = {});
  std::optional<ScoreTask> try_score(std::vector<TokenId> ids, const ScoreOptions& options = {}, const RequestOptions& request = {});

  const Model& model() const;
  EngineLoad load() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvik
