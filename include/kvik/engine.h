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

// Continuous batching: many requests at once, each with the result it would have alone.
namespace kvik {

struct EngineOptions {
  int max_sequences = 64;   // generations, sources and windows that run together; others wait
  int max_queue = 1024;     // requests that wait
  size_t kv_bytes = 0;      // native backend only: replaces LoadOptions::kv_bytes of the model; 0: leaves it
  double max_step_ms = 50;  // prompts, sources and texts are computed in smaller chunks while others wait longer for their next token
};

class Stream;

// How a request is treated beside others.
struct RequestOptions {
  std::string user;                      // of those that wait, the first one of the user who has the fewest running is next
  std::chrono::milliseconds timeout{0};  // from submit() on; then it ends as if it were cancelled. 0: none
  const Stream* same_prompt = nullptr;   // generations: waits until that stream has computed its prompt, to begin behind it
  std::function<void()> on_update;       // poll() has news, or a task is done. On the engine's thread: it may only pass the word on
};

// What became of a stream since the last poll().
struct StreamUpdate {
  std::string text;                    // whole UTF-8 characters
  std::vector<GeneratedToken> tokens;  // with logprobs only if GenerateOptions::logprobs is set; none for beams
  std::optional<Finish> finish;        // set: this was the last update
  bool timed_out = false;              // RequestOptions::timeout ended it; `finish` is kCancelled
  std::exception_ptr error;            // why it ended, if it failed; `finish` is set too
};

struct EngineLoad {
  int running = 0;        // generations, sources and windows
  int waiting = 0;        // requests of which nothing has begun
  int64_t preempted = 0;  // times that a cache was freed for others, to be computed again later
};

// One generation of an engine. Read by one thread; destroying it cancels the generation.
class Stream {
 public:
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  // Waits for the next text: whole UTF-8 characters, valid until the next call; nullopt at the end. Throws the error that ended it.
  std::optional<std::string_view> next();
  std::string text();  // waits for everything that is left
  // What is new, without waiting. It does not throw.
  StreamUpdate poll();

  // Any thread. It ends within one step, and its cache is free then.
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
  std::vector<TokenId> ids() const;      // new ones so far
  std::optional<Finish> finish() const;  // once it has ended
  Metrics metrics() const;               // first_token_ms counts from submit()

  struct State;
  explicit Stream(std::shared_ptr<State> state);

 private:
  friend class Engine;
  std::shared_ptr<State> state_;
};

// A request of an engine whose result is there at its end. Read by one thread; destroying it cancels the request.
template <class Result>
class Task {
 public:
  Task(Task&&) noexcept;
  Task& operator=(Task&&) noexcept;
  ~Task();

  bool is_done() const;
  // Waits for the end; once. If it was cancelled, what was done before, as the function of Model returns it. Throws the error that ended
  // it.
  Result get();
  bool was_cancelled() const;  // it is done before everything was: cancelled, timed out, or the engine was destroyed
  bool timed_out() const;      // RequestOptions::timeout ended it

  // Any thread. It ends within one step, and what it held is free then.
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

// What the functions of Model take, kept by the request.
using Sources = std::variant<std::vector<std::string>, std::vector<std::vector<TokenId>>, std::vector<Features>>;
using Texts = std::variant<std::vector<std::string>, std::vector<std::vector<TokenId>>>;
struct Samples {
  std::vector<float> values;
  int rate = 16000;  // per second
};
using Recording = std::variant<std::filesystem::path, Samples, std::vector<Features>>;  // a file stays as it is until the task is done

// Runs requests of one model on a thread of its own: generations, translations, transcriptions, embeddings and scores, as far as the model
// does these. A request joins between two steps and leaves when it is done. Long prompts are computed in chunks beside the steps of others,
// and encoders and embedders read between two steps, so much at a time that a step stays short. If the memory of the KV cache runs out,
// what joined last is preempted and computed again later, with the same result. Submit from any thread. Destroying it cancels what runs.
class Engine {
 public:
  explicit Engine(Model model, const EngineOptions& options = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  // Waits while the queue is full. Bad arguments are reported here, as by the functions of Model. Callbacks of options are called on the
  // engine's thread: they must be fast and must not call the engine. GenerateOptions::progress is not called.
  Stream submit(std::string_view prompt, const GenerateOptions& options = {}, const RequestOptions& request = {});
  Stream submit(std::span<const TokenId> prompt, const GenerateOptions& options = {}, const RequestOptions& request = {});
  // Sources run beside each other, `batch` of them at most, and so do windows of a recording.
  TranslationTask translate(Sources sources, const TranslateOptions& options = {}, const RequestOptions& request = {});
  TranscriptionTask transcribe(Recording recording, const TranscribeOptions& options = {}, const RequestOptions& request = {});
  EmbeddingTask embed(Texts texts, const EmbedOptions& options = {}, const RequestOptions& request = {});
  ScoreTask score(std::vector<TokenId> ids, const ScoreOptions& options = {}, const RequestOptions& request = {});

  // nullopt if the queue is full.
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
