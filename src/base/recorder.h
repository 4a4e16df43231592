#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace kvik {

// Records how long operations take, and on request when each of them ran on which thread. Behind kvik/profile.h.
class Recorder {
 public:
  static constexpr int kMaxThreads = 256;

  explicit Recorder(bool timeline);
  ~Recorder();

  // A kind of operation; the same name gives the same id. Ids stay valid as long as the recorder.
  int kind(std::string_view name);

  struct Work {
    int64_t bytes = 0;
    int64_t multiplications = 0;
  };
  // An operation of `kind` that ran from `begin` to now on the thread that drives the model. Any thread may call it.
  void add(int kind, int64_t begin_ns, Work work) { add(kind, begin_ns, now_ns(), work); }
  void add(int kind, int64_t begin_ns, int64_t end_ns, Work work);
  // One that ran on one of n_sharing threads at the same time as others: it counts as that share of its time, and the timeline shows only
  // what these threads did.
  void add_shared(int kind, int64_t begin_ns, Work work, int n_sharing);

  // Workers: what they do belongs to the operation that begin() named last. Each worker calls add_worker only with its own number.
  void begin(int kind) { current_.store(kind, std::memory_order_relaxed); }
  void add_worker(int worker, int64_t begin_ns);

  static int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  struct Total {
    std::string name;
    int64_t calls = 0, ns = 0;
    Work work;
  };
  std::vector<Total> totals() const;  // of kinds that ran
  std::string trace_json() const;

 private:
  struct Event {
    int32_t kind;
    int64_t begin_ns, end_ns;
  };
  // Written by one thread; the count is published after each event, so that another thread can read what is before it.
  struct Events {
    static constexpr size_t kBlock = 4096;
    struct Block {
      std::array<Event, kBlock> events;
      std::unique_ptr<Block> next;
    };
    std::unique_ptr<Block> first;
    Block* last = nullptr;
    std::atomic<size_t> count{0};
    ~Events();
  };
  void keep(Events& events, const Event& event);
  void count(int kind, int64_t ns, const Work& work);

  const bool timeline_;
  const int64_t started_ns_ = now_ns();
  mutable std::mutex mutex_;  // of what follows
  std::deque<Total> totals_;
  std::map<std::string, int, std::less<>> kinds_;
  Events driver_;

  std::array<Events, kMaxThreads> workers_;
  std::atomic<int> current_{-1};
  std::atomic<int64_t> n_events_{0};
};

// Times one operation while it is in scope; a null recorder costs a comparison.
class RecordedScope {
 public:
  // n_sharing: how many threads run such operations at the same time.
  RecordedScope(Recorder* recorder, int kind, Recorder::Work work = {}, int n_sharing = 1)
      : recorder_(recorder), kind_(kind), n_sharing_(n_sharing), work_(work) {
    if (recorder_ == nullptr) return;
    if (n_sharing == 1) recorder_->begin(kind);
    begin_ns_ = Recorder::now_ns();
  }
  ~RecordedScope() {
    if (recorder_ == nullptr) return;
    if (n_sharing_ == 1)
      recorder_->add(kind_, begin_ns_, work_);
    else
      recorder_->add_shared(kind_, begin_ns_, work_, n_sharing_);
  }
  RecordedScope(const RecordedScope&) = delete;
  RecordedScope& operator=(const RecordedScope&) = delete;

 private:
  Recorder* recorder_;
  int kind_, n_sharing_;
  Recorder::Work work_;
  int64_t begin_ns_ = 0;
};

}  // namespace kvik
