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

// What a scheduler runs for somebody. All functions but is_cancelled() are called on the scheduler's thread and must not wait.
class Request {
 public:
  virtual ~Request() = default;
  virtual Work& work() = 0;
  virtual bool is_cancelled() const = 0;
  virtual std::string_view user() const { return {}; }
  // The last call. All parts have finished, or some have not: it was cancelled, or failed with an error. What they held is free.
  virtual void ended(bool cancelled, std::exception_ptr error) = 0;
};

struct SchedulerLimits {
  size_t max_streams = 64;
  size_t max_waiting = 1024;
  double max_step_ms = 50;    // while some streams decode
  bool reuse_sources = true;  // keep what was encoded, and look it up
};

// Continuous batching over the decode loop: one thread steps all streams that run, and streams join and leave between two steps. That is
// also where encoders read the sources of those that join, and embedders their texts: together, and no more rows at a time than the time of
// a step allows. If a step finds no memory for its cache, the youngest stream is preempted: its cache is freed, and it waits before all
// others until another ends. Of the requests that wait, the first one of the user who has the fewest running streams is next.
class Scheduler {
 public:
  Scheduler(std::shared_ptr<Decoder> decoder, SchedulerLimits limits);
  ~Scheduler();  // cancels everything
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Any thread. False if too many wait already.
  bool try_submit(std::shared_ptr<Request> request);
  void submit(std::shared_ptr<Request> request);  // waits instead

  struct Load {
    size_t running = 0;  // streams
    size_t waiting = 0;  // requests of which nothing has begun
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

  // A part that runs, or did.
  struct Entry {
    std::shared_ptr<Job> job;
    Part part;
    size_t n_rows = 0;         // for the encoder or embedder
    int n_generated = 0;       // that were reported
    int64_t wait_for_end = 0;  // of a preempted one: n_ended_ at which it may continue
    std::chrono::steady_clock::time_point joined{};
    std::vector<std::vector<TokenId>> branches;  // of a preempted one whose source was freed too
  };

  void run();
  void take_arrived();
  void end_cancelled_and_empty();

  // What begins between two steps (scheduler_join.cc).
  bool join();  // false if nothing did
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

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable work_, room_;
  std::vector<std::shared_ptr<Request>> arrived_;
  size_t n_waiting_ = 0;
  bool stopping_ = false;

  // Of the thread:
  std::vector<std::shared_ptr<Job>> jobs_;  // all that have not ended, in the order in which they came
  std::vector<Entry> running_;              // in the order in which they joined
  std::deque<Entry> preempted_;
  std::vector<Entry> joining_;
  size_t n_side_rows_ = 0;       // of those that join now
  bool some_must_wait_ = false;  // there were more
  double side_ms_ = 0;
  std::vector<Stream*> streams_;
  PromptShare prompt_share_;
  int64_t n_ended_ = 0;  // parts
  std::atomic<size_t> n_running_{0};
  std::atomic<int64_t> n_preempted_{0};
  std::thread thread_;
};

}  // namespace kvik::engine
