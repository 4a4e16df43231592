#pragma once

#include <atomic>
#include <climits>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "engine/sample_strategy.h"
#include "engine/scheduler.h"
#include "kvik/error.h"

// A backend and an embedder that compute nothing and record their calls.
namespace kvik::engine {

struct Log {
  std::mutex mutex;
  std::vector<std::string> events;  // "run", "encode 2", "embed 40" (rows)

  void add(std::string event) {
    const std::lock_guard lock(mutex);
    events.push_back(std::move(event));
  }
  std::vector<std::string> read() {
    const std::lock_guard lock(mutex);
    return events;
  }
};

class ScriptedBackend final : public backend::Backend {
 public:
  // `most_positions`: that all caches hold together.
  ScriptedBackend(Log& log, int most_sources, int most_positions = INT_MAX)
      : log_(log), most_sources_(most_sources), most_positions_(most_positions) {
    traits_.exact = traits_.exact_sources = traits_.needs_source = true;
    traits_.vocab = 16;
  }

  struct Length final : backend::Cache {
    explicit Length(std::atomic<int>& count) : n(count) {}
    ~Length() override { grow(-n_positions); }
    Length(const Length&) = delete;
    Length& operator=(const Length&) = delete;
    int length() const override { return n_positions; }
    size_t size_bytes() const override { return 0; }
    void grow(int by) { n_positions += by, n += by; }
    std::atomic<int>& n;
    int n_positions = 0;
  };
  struct CountedSource final : backend::Source {
    explicit CountedSource(std::atomic<int>& count) : n(count) { ++n; }
    ~CountedSource() override { --n; }
    int n_positions() const override { return 1; }
    std::atomic<int>& n;
  };

  const backend::Traits& traits() const override { return traits_; }
  int preferred_chunk() const override { return 64; }
  std::unique_ptr<backend::Cache> new_cache(std::shared_ptr<const backend::Source>, int) override {
    return std::make_unique<Length>(n_positions);
  }
  bool can_continue(const backend::Cache&, int) const override { return true; }
  backend::CacheMemory cache_memory() const override { return {.limit_bytes = limit_bytes}; }
  std::unique_ptr<backend::Cache> fork(const backend::Cache& cache) override {
    auto copy = std::make_unique<Length>(n_positions);
    copy->grow(cache.length());
    return copy;
  }
  void rewind(backend::Cache& cache, int length) override { static_cast<Length&>(cache).grow(length - cache.length()); }
  std::vector<Tensor> contents(const backend::Cache&) override { return {}; }
  std::unique_ptr<backend::Cache> restore(std::span<const TokenId>, std::span<const Tensor>) override { return nullptr; }

  // All of them, or none if there would be too many.
  std::vector<std::shared_ptr<const backend::Source>> encode(std::span<const Tensor> inputs) override {
    log_.add("encode " + std::to_string(inputs.size()));
    for (const Tensor& input : inputs) {
      if (input.dim(0) == 13) throw Error(Code::kBadArgument, "a source of 13");
    }
    if (n_sources + static_cast<int>(inputs.size()) > most_sources_) throw Error(Code::kTooLarge, "no memory for a source");
    std::vector<std::shared_ptr<const backend::Source>> sources;
    for (size_t i = 0; i < inputs.size(); ++i) sources.push_back(std::make_shared<CountedSource>(n_sources));
    most_sources_alive = std::max(most_sources_alive.load(), n_sources.load());
    return sources;
  }

  backend::RunStatus run(std::span<const backend::Row> rows, std::span<backend::Cache* const> caches, backend::Logits& logits) override {
    log_.add("run");
    if (rows.size() > caches.size()) ++n_prompt_runs;
    if (n_positions + static_cast<int>(rows.size()) > most_positions_) return backend::RunStatus::kNoMemory;
    int n = 0;
    for (const backend::Row& row : rows) n += row.wants_logits ? 1 : 0;
    logits.resize(n, traits_.vocab);
    for (int i = 0; i < n; ++i) std::ranges::fill(logits.writable_row(i), 0.0f);
    for (const backend::Row& row : rows) static_cast<Length*>(caches[static_cast<size_t>(row.sequence)])->grow(1);
    return backend::RunStatus::kDone;
  }

  std::atomic<int> n_sources = 0, n_positions = 0;  // alive
  std::atomic<int> most_sources_alive = 0;
  std::atomic<size_t> n_prompt_runs = 0;  // with more rows than streams
  size_t limit_bytes = 0;

 private:
  Log& log_;
  int most_sources_, most_positions_;
  backend::Traits traits_;
};

class ScriptedEmbedder final : public backend::Embedder {
 public:
  explicit ScriptedEmbedder(Log& log) : log_(log) {}
  const backend::EmbedderTraits& traits() const override { return traits_; }
  std::vector<Tensor> run(std::span<const std::vector<TokenId>> texts) override {
    size_t n_rows = 0;
    for (const std::vector<TokenId>& text : texts) n_rows += text.size();
    log_.add("embed " + std::to_string(n_rows));
    return std::vector<Tensor>(texts.size());
  }

 private:
  Log& log_;
  backend::EmbedderTraits traits_;
};

// A request that can be waited for.
class ScriptedRequest : public Request, public Work {
 public:
  Work& work() override { return *this; }
  bool is_cancelled() const override { return cancelled; }
  void ended(bool, std::exception_ptr fault) override {
    if (on_end) on_end();
    const std::lock_guard lock(mutex_);
    error = std::move(fault);
    has_ended_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return has_ended_; });
  }

  std::atomic<bool> cancelled = false;
  std::exception_ptr error;
  std::function<void()> on_end;  // on the thread of the scheduler

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_ended_ = false;
};

// Texts of equal length. The first of all waits until `open` is set.
class TextsRequest final : public ScriptedRequest {
 public:
  TextsRequest(std::shared_ptr<ScriptedEmbedder> embedder, size_t n_texts, size_t n_rows)
      : embedder_(std::move(embedder)), n_texts_(n_texts), n_rows_(n_rows) {}

  NextPart next() const override { return n_begun_ < n_texts_ ? NextPart::kReady : NextPart::kNone; }
  size_t next_rows() const override { return n_rows_; }
  Part begin() override {
    while (!open) std::this_thread::yield();
    ++n_begun_;
    return {.text = std::vector<TokenId>(n_rows_)};
  }
  backend::Embedder* embedder() const override { return embedder_.get(); }
  void embedded(const Part&, Tensor) override { ++n_embedded; }
  void finished(const Part&) override {}

  std::atomic<bool> open = true;
  std::atomic<size_t> n_embedded = 0;

 private:
  std::shared_ptr<ScriptedEmbedder> embedder_;
  size_t n_texts_, n_rows_, n_begun_ = 0;
};

// Sources, each of which gets some tokens: drawn, so that each draw is another one.
class SourcesRequest final : public ScriptedRequest {
 public:
  SourcesRequest(std::shared_ptr<Decoder> decoder, size_t n_sources, size_t n_tokens, int64_t n_rows = 3)
      : decoder_(std::move(decoder)), n_sources_(n_sources), n_tokens_(n_tokens), n_rows_(n_rows) {}

  NextPart next() const override { return n_begun_ < n_sources_ ? NextPart::kReady : NextPart::kNone; }
  size_t next_rows() const override { return static_cast<size_t>(n_rows_); }
  Part begin() override { return {.index = n_begun_++, .input = Tensor(DType::kI64, {n_rows_})}; }
  Stream stream_of(const Part& part) override {
    SampleOptions options;
    options.prompt_length = n_prompt;
    options.stop.max_length = n_prompt + (n_tokens_of ? n_tokens_of(part.index) : n_tokens_);
    options.stream = part.index;
    const auto sampler = std::make_shared<sample::Sampler>(Sampling{.temperature = 1.0}, sample::TokenRules{16, {}, {}});
    Stream stream(Sequence(decoder_, 0, part.source), std::make_unique<SampleStrategy>(sampler, std::move(options)));
    for (size_t i = 0; i < n_prompt; ++i) stream.branches.front().push(1);
    return stream;
  }
  void generated(const Part&) override { ++n_generated; }
  void finished(const Part& part) override {
    ids[part.index] = part.stream->strategy->targets().front().ids;
    found.push_back(ids[part.index].size());
  }

  std::function<size_t(size_t)> n_tokens_of;  // a source; not set: all have as many
  size_t n_prompt = 1;                        // tokens before the first one that is drawn
  std::atomic<size_t> n_generated = 0;
  std::vector<size_t> found;                   // tokens of each source that has finished
  std::map<size_t, std::vector<TokenId>> ids;  // by source

 private:
  std::shared_ptr<Decoder> decoder_;
  size_t n_sources_, n_tokens_, n_begun_ = 0;
  int64_t n_rows_;
};

}  // namespace kvik::engine
