#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/prompt_share.h"
#include "engine/work.h"

namespace kvik::engine {

// A request of a client. All functions except is_cancelled() are called on the scheduler's thread and must not block.
class Request {
 public:
  virtual ~Request() = default;
  virtual Work& work() = 0;
  virtual bool is_cancelled() const = 0;
  virtual std::string_view user() const { return {}; }
  // The last call: all parts have finished, or the request was cancelled or failed. Its memory has been freed.
  virtual void ended(bool cancelled, std::exception_ptr error) = 0;
};

struct SchedulerLimits {
  size_t max_streams = 64;
  size_t max_waiting = 1024;
  double max_step_ms = 50;    // while some streams decode
  bool reuse_sources = true;  // cache encoded sources
};

// Continuous batching over the decode loop: one thread steps all running streams, and streams join and leave between two steps. Between
// steps it also encodes the sources of joining streams and embeds texts: batched, and limited in rows so that steps stay short. If a step
// cannot get cache memory, the youngest stream is preempted: its cache is freed, and it goes to the head of the queue until another stream
// ends. The next request to run is the first waiting one of the user with the fewest running streams.
class Scheduler {
 public:
  Scheduler(std::shared_ptr<Decoder> decoder, SchedulerLimits limits);
  ~Scheduler();  // cancels everything
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Any thread. False if the queue is full.
  bool try_submit(std::shared_ptr<Request> request);
  void submit(std::shared_ptr<Request> request);  // waits instead

  struct Load {
    size_t running = 0;  // streams
    size_t waiting = 0;  // requests that have not begun
    int64_t preempted = 0;
  };
  Load load() const;

 private:
  struct Job {
    std::shared_ptr<Request> request;
    size_t n_running = 0;  // parts that have begun and not ended
    bool has_begun = false;
    bool has_ended = false;

    Work& work() const { return request->work(); }
  };

  // A part that is running or preempted.
  struct Entry {
    std::shared_ptr<Job> job;
    Part part;
    size_t n_rows = 0;         // for the encoder or embedder
    int n_generated = 0;       // tokens reported so far
    int64_t wait_for_end = 0;  // if preempted: it may continue when n_ended_ reaches this
    std::chrono::steady_clock::time_point joined{};
    std::vector<std::vector<TokenId>> branches;  // if preempted and its source was freed too: the tokens to recompute
  };

  void run();
  void take_arrived();
  void end_cancelled_and_empty();

  // Starts parts between two steps (scheduler_join.cc).
  bool join();  // false if none started
  size_t most_side_rows() const;
  bool join_next(size_t most_rows);
  std::shared_ptr<Job> next_job(bool streams_too) const;
  bool begin_part(const std::shared_ptr<Job>& job);
  void embed_texts();
  void embed_together(std::span<Entry> entries);
  void encode_sources();
  void encode_alone(Entry& entry);
  void begin_stream(Entry& entry);

  void step();
  void step_each_alone();
  void preempt_youngest();
  static void release(Entry& entry);
  void report();
  static void add_generated(Entry& entry);
  void end_part(Entry entry, std::exception_ptr error);
  void end(const std::shared_ptr<Job>& job, bool cancelled, std::exception_ptr error);
  void stop_waiting(Job& job);

  std::shared_ptr<Decoder> decoder_;
  const SchedulerLimits limits_;

  mutable std::mutex mutex_;  // protects the next five members
  std::condition_variable work_, room_;
  std::vector<std::shared_ptr<Request>> arrived_;
  size_t n_waiting_ = 0;
  bool stopping_ = false;

  // Used only by thread_:
  std::vector<std::shared_ptr<Job>> jobs_;  // not ended, in order of arrival
  std::vector<Entry> running_;              // in the order in which they joined
  std::deque<Entry> preempted_;
  std::vector<Entry> joining_;
  size_t n_side_rows_ = 0;       // encoder and embedder rows of the joining parts
  bool some_must_wait_ = false;  // more parts were ready than could join
  double side_ms_ = 0;
  std::vector<Stream*> streams_;
  PromptShare prompt_share_;
  int64_t n_ended_ = 0;  // parts
  std::atomic<size_t> n_running_{0};
  std::atomic<int64_t> n_preempted_{0};
  std::thread thread_;
};

}  // namespace kvik::engine
