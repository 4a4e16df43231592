#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/decoder.h"

namespace kvik::engine {

// A stream that a scheduler runs. All functions but is_cancelled() are called on the scheduler's thread and must not wait.
class Request {
 public:
  virtual ~Request() = default;
  virtual Stream& stream() = 0;  // its prompt is pending
  virtual bool is_cancelled() const = 0;
  virtual std::string_view user() const { return {}; }
  virtual bool is_ready() const { return true; }  // to join
  virtual void generated() = 0;                   // the stream has chosen a token
  // The last call: the stream has finished, was cancelled (no Finish, no error) or failed.
  virtual void ended(std::exception_ptr error) = 0;
};

struct SchedulerLimits {
  size_t max_streams = 64;
  size_t max_waiting = 1024;
  double max_step_ms = 50;  // while some streams decode
};

// How many rows of prompts a step computes beside single steps of others, learned from the time that steps take.
class PromptShare {
 public:
  PromptShare(size_t most_rows, double max_step_ms) : most_rows_(most_rows), max_step_ms_(max_step_ms), rows_(most_rows) {}

  size_t rows() const { return rows_; }
  void add_step(double ms);  // of a step that had as many rows of prompts as it might

 private:
  static constexpr size_t kFewestRows = 8;  // so that a prompt is computed however slow a step is
  size_t most_rows_;
  double max_step_ms_;
  size_t rows_;
};

// Continuous batching over the decode loop: one thread steps all streams that run, and streams join and leave between two steps. If a step
// finds no memory for its cache, the youngest stream is preempted: its cache is freed, and it waits at the front of the queue until another
// ends. Of those that wait, the first one of the user who has the fewest running streams is next.
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
    size_t running = 0, waiting = 0;
    int64_t preempted = 0;
  };
  Load load() const;

 private:
  struct Entry {
    std::shared_ptr<Request> request;
    int n_generated = 0;       // that were reported
    int64_t wait_for_end = 0;  // of a preempted one: n_ended_ at which it may continue
    std::chrono::steady_clock::time_point joined{};
  };

  void run();
  void admit();  // with mutex_ held
  std::deque<Entry>::iterator next_to_join();
  void join(Entry& entry) const;
  void end_dropped();
  void end_cancelled();
  void step();
  void step_each_alone();
  void preempt_youngest();
  void report();
  void end(Entry& entry, std::exception_ptr error);

  std::shared_ptr<Decoder> decoder_;
  const SchedulerLimits limits_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable work_, room_;
  std::deque<Entry> waiting_;
  bool stopping_ = false;

  // Of the thread:
  std::vector<Entry> running_;  // in the order in which they joined
  struct Dropped {
    Entry entry;
    std::exception_ptr error;  // null: it was cancelled
  };
  std::vector<Dropped> dropped_;  // of the queue, to be ended
  std::vector<Stream*> streams_;
  PromptShare prompt_share_;
  int64_t n_ended_ = 0;
  std::atomic<size_t> n_running_{0};
  std::atomic<int64_t> n_preempted_{0};
  std::thread thread_;
};

}  // namespace kvik::engine
