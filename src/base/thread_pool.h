#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace kvik {

class HelperCore;
class Recorder;

// A work-stealing thread pool. A job is n items; every thread owns a share of them and steals from the others once its own are done.
// A job ends when its items are finished, not when all threads have arrived: a preempted thread delays at most the one item it has
// begun, and a sleeping thread delays nothing. Which thread computes an item is unspecified. While another program wants the core of a
// thread, the thread takes breaks between two items, so that it is rarely preempted inside one (base/helper_core.h).
//
// for_each() may be called from any thread; jobs of several callers run one after another. A nested call, from inside an item, runs on
// the calling thread. Nothing is allocated per job. Idle threads spin for some microseconds, then sleep.
class ThreadPool {
 public:
  // n_threads counts the caller: 1 starts no thread at all. At most kMaxThreads; less than 1 counts as 1.
  // `recorder`: gets the time that each thread works; may be null, and outlives the pool.
  explicit ThreadPool(int n_threads, Recorder* recorder = nullptr);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  static constexpr int kMaxThreads = 256;

  int n_threads() const { return used_.load(std::memory_order_relaxed); }  // that share a job
  int most_threads() const { return n_threads_; }
  // Later jobs are shared by the first n threads, 1 to most_threads(); the others sleep. Not from inside an item.
  void use(int n);

  // Calls fn(int64_t item) once for each item in [0, n_items) and returns when all are finished; what they wrote is visible then.
  // If items throw, the remaining ones may be skipped and the first exception is thrown here.
  template <class Fn>
  void for_each(int64_t n_items, Fn&& fn) {
    using Callable = std::remove_reference_t<Fn>;
    run(n_items, {[](void* context, int64_t item) { (*static_cast<Callable*>(context))(item); },
                  const_cast<void*>(static_cast<const void*>(std::addressof(fn)))});
  }

  // The same for ranges of at most `grain` items: fn(int64_t begin, int64_t end).
  template <class Fn>
  void for_ranges(int64_t n, int64_t grain, Fn&& fn) {
    const int64_t step = grain < 1 ? 1 : grain;
    for_each((n + step - 1) / step, [&](int64_t i) {
      const int64_t end = (i + 1) * step;
      fn(i * step, end < n ? end : n);
    });
  }

 private:
  struct Work {
    void (*call)(void* context, int64_t item);
    void* context;
  };
  // One thread's share of a job, in one cache line, so that a waiting thread gets all of it at once. `word`: job number in the upper half,
  // items not yet claimed in the lower. A claim is a compare-and-swap of the whole word, so a late thread with the word of an earlier job
  // cannot claim anything of this one. The other fields are written before the word and read after it: while it is unchanged and has
  // unclaimed items, they are those of its job.
  struct alignas(64) Share {
    std::atomic<uint64_t> word{0};
    std::atomic<void (*)(void*, int64_t)> call{nullptr};
    std::atomic<void*> context{nullptr};
    std::atomic<int64_t> n_items{0};  // of the whole job
    std::atomic<int> n_shares{0};
    std::atomic<int> caller_cpu{-1};
  };

  void run(int64_t n_items, Work work);
  void run_alone(int64_t n_items, Work work);
  void run_some(int64_t n_items, Work work);
  enum class Worked { kNothing, kSome, kUntilBreak };
  Worked work_from(int first_share, int n_shares, HelperCore* core);
  Worked work_recorded(int thread, int n_shares, HelperCore* core);
  void help(int thread, HelperCore& core);
  bool claim_and_run(int index, uint32_t& job_items);
  void run_item(const Work& work, int64_t item);
  void worker_loop(int thread);

  const int n_threads_;
  Recorder* const recorder_;
  std::mutex one_job_;
  std::vector<std::thread> threads_;
  std::unique_ptr<Share[]> shares_;

  alignas(64) std::atomic<int> used_;              // threads that are not used wait for it to change
  alignas(64) std::atomic<uint32_t> job_{0};       // sleeping threads wait for it to change
  alignas(64) std::atomic<uint32_t> n_late_{0};    // jobs that waited long for their last items
  alignas(64) std::atomic<uint32_t> finished_{0};  // items of the current job
  std::atomic<bool> stopping_{false};
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;  // of the thread that set failed_
};

}  // namespace kvik
