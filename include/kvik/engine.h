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
#include <vector>

#include "kvik/kvik.h"

// Continuous batching: many generations at once, each with the tokens it would have alone.
namespace kvik {

struct EngineOptions {
  int max_sequences = 64;   // generations that run together; others wait
  int max_queue = 1024;     // generations that wait
  size_t kv_bytes = 0;      // native backend only: replaces LoadOptions::kv_bytes of the model; 0: leaves it
  double max_step_ms = 50;  // prompts are computed in smaller chunks while other generations wait longer for their next token
};

class Stream;

// How a generation is treated beside others.
struct RequestOptions {
  std::string user;                      // of those that wait, the first one of the user who has the fewest running is next
  std::chrono::milliseconds timeout{0};  // from submit() on; then it ends as if it were cancelled. 0: none
  const Stream* same_prompt = nullptr;   // waits until that stream has computed its prompt, to begin behind it
  std::function<void()> on_update;       // poll() has news. Called on the engine's thread: it may only pass the word on
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
  int running = 0;
  int waiting = 0;
  int64_t preempted = 0;  // times that a cache was freed for other generations, to be computed again later
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

// Runs generations of one model on a thread of its own. A new one joins between two steps and leaves when it is done; long prompts are
// computed in chunks beside the steps of others, small enough that a step stays short. If the memory of the KV cache runs out, the youngest
// generation is preempted and computed again later, with the same result. Submit from any thread. Destroying it cancels what runs.
class Engine {
 public:
  explicit Engine(Model model, const EngineOptions& options = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  // Waits while the queue is full. Bad options are reported here, as by Model::generate(). GenerateOptions::progress is not called, and
  // `cancelled` is called on the engine's thread: it must be fast and must not call the engine.
  Stream submit(std::string_view prompt, const GenerateOptions& options = {}, const RequestOptions& request = {});
  Stream submit(std::span<const TokenId> prompt, const GenerateOptions& options = {}, const RequestOptions& request = {});
  // nullopt if the queue is full.
  std::optional<Stream> try_submit(std::span<const TokenId> prompt, const GenerateOptions& options = {},
                                   const RequestOptions& request = {});

  const Model& model() const;
  EngineLoad load() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvik
