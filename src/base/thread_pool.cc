#include "base/thread_pool.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/helper_core.h"
#include "base/recorder.h"

namespace kvik {
namespace {

// About 150 us: longer than the gap between two operations of a step, and often longer than the gap between two steps; shorter than a time
// slice.
constexpr int kSpins = 6000;

static_assert(ThreadPool::kMaxThreads <= Recorder::kMaxThreads);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Whether this thread is inside an item, and so must not wait for others.
thread_local bool inside_item = false;

struct InsideItem {
  InsideItem() { inside_item = true; }
  ~InsideItem() { inside_item = false; }
};

constexpr uint64_t share_word(uint32_t job, uint32_t unclaimed) { return (static_cast<uint64_t>(job) << 32) | unclaimed; }
constexpr uint32_t job_of(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
constexpr uint32_t unclaimed_of(uint64_t word) { return static_cast<uint32_t>(word); }

// First item of a share; with share = n_threads, the end of the last one.
constexpr int64_t share_begin(int64_t n_items, int share, int n_threads) { return n_items * share / n_threads; }

// Waits until ready() holds: spins first, then sleeps on `word`, which is notified after every change. Whether spinning was not enough.
template <class Ready>
bool await(const std::atomic<uint32_t>& word, Ready ready) {
  for (int i = 0; i < kSpins; ++i) {
    if (ready()) return false;
    relax();
  }
  for (;;) {
    const uint32_t seen = word.load(std::memory_order_acquire);
    if (ready()) return true;
    word.wait(seen, std::memory_order_acquire);
  }
}

}  // namespace

ThreadPool::ThreadPool(int n_threads, Recorder* recorder)
    : n_threads_(std::clamp(n_threads, 1, kMaxThreads)),
      recorder_(recorder),
      shares_(std::make_unique<Share[]>(static_cast<size_t>(n_threads_))),
      used_(n_threads_) {
  threads_.reserve(static_cast<size_t>(n_threads_ - 1));
  for (int t = 1; t < n_threads_; ++t) threads_.emplace_back([this, t] { worker_loop(t); });
}

ThreadPool::~ThreadPool() {
  stopping_.store(true);
  use(n_threads_);
  const uint32_t job = job_.load() + 1;
  for (int s = 0; s < n_threads_; ++s) shares_[static_cast<size_t>(s)].word.store(share_word(job, 0));
  job_.store(job);
  job_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::use(int n) {
  n = std::clamp(n, 1, n_threads_);
  if (used_.exchange(n) < n) used_.notify_all();  // sequentially consistent, as job_
}

void ThreadPool::run(int64_t n_items, Work work) {
  if (n_items <= 0) return;
  if (n_threads() == 1 || n_items == 1 || inside_item) return run_alone(n_items, work);
  const std::lock_guard lock(one_job_);
  // A share counts its items in 32 bits; a larger job is run as several.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (n_items <= kMost) return run_some(n_items, work);
  struct Shifted {
    Work work;
    int64_t first;
  };
  for (int64_t first = 0; first < n_items; first += kMost) {
    Shifted shifted{work, first};
    run_some(std::min(kMost, n_items - first), {[](void* context, int64_t item) {
                                                  const auto* s = static_cast<const Shifted*>(context);
                                                  s->work.call(s->work.context, s->first + item);
                                                },
                                                &shifted});
  }
}

void ThreadPool::run_alone(int64_t n_items, Work work) {
  for (int64_t item = 0; item < n_items; ++item) work.call(work.context, item);
}

void ThreadPool::run_some(int64_t n_items, Work work) {
  const uint32_t job = job_.load(std::memory_order_relaxed) + 1;
  const int n_shares = n_threads(), cpu = current_cpu();
  finished_.store(0, std::memory_order_relaxed);
  for (int s = n_shares; s-- > 0;) {  // the caller's own last
    const int64_t size = share_begin(n_items, s + 1, n_shares) - share_begin(n_items, s, n_shares);
    Share& share = shares_[static_cast<size_t>(s)];
    share.call.store(work.call, std::memory_order_relaxed);
    share.context.store(work.context, std::memory_order_relaxed);
    share.n_items.store(n_items, std::memory_order_relaxed);
    share.n_shares.store(n_shares, std::memory_order_relaxed);
    share.caller_cpu.store(cpu, std::memory_order_relaxed);
    share.word.store(share_word(job, static_cast<uint32_t>(size)), std::memory_order_release);
  }
  job_.store(job);  // sequentially consistent: notify_all() must not look for sleeping threads before they can see the job
  job_.notify_all();

  work_recorded(0, n_shares, nullptr);
  const auto all = static_cast<uint32_t>(n_items);
  const bool late = await(finished_, [&] { return finished_.load(std::memory_order_acquire) == all; });
  if (late) n_late_.fetch_add(1, std::memory_order_relaxed);
  if (!failed_.load(std::memory_order_acquire)) return;
  failed_.store(false, std::memory_order_relaxed);
  std::rethrow_exception(std::exchange(failure_, nullptr));
}

ThreadPool::Worked ThreadPool::work_recorded(int thread, int n_shares, HelperCore* core) {
  const int64_t begin_ns = recorder_ != nullptr ? Recorder::now_ns() : 0;
  const Worked worked = work_from(thread, n_shares, core);
  if (worked != Worked::kNothing && recorder_ != nullptr) recorder_->add_worker(thread, begin_ns);
  return worked;
}

// Finished items are counted once per share: a counter that every thread changes after every item would cost more than small items. Before
// a break, all are counted, so that nobody waits for this thread.
ThreadPool::Worked ThreadPool::work_from(int first_share, int n_shares, HelperCore* core) {
  const InsideItem guard;
  Worked worked = Worked::kNothing;
  for (int i = 0; i < n_shares && worked != Worked::kUntilBreak; ++i) {
    const int share = first_share + i < n_shares ? first_share + i : first_share + i - n_shares;
    uint32_t n_run = 0, n_items = 0;
    while (worked != Worked::kUntilBreak && claim_and_run(share, n_items)) {
      ++n_run;
      worked = core != nullptr && core->wants_break() ? Worked::kUntilBreak : Worked::kSome;
    }
    if (n_run > 0 && finished_.fetch_add(n_run, std::memory_order_acq_rel) + n_run == n_items) finished_.notify_all();
  }
  return worked;
}

bool ThreadPool::claim_and_run(int index, uint32_t& job_items) {
  Share& share = shares_[static_cast<size_t>(index)];
  uint64_t seen = share.word.load(std::memory_order_acquire);
  while (unclaimed_of(seen) != 0) {
    const Work work{share.call.load(std::memory_order_relaxed), share.context.load(std::memory_order_relaxed)};
    const int64_t n_items = share.n_items.load(std::memory_order_relaxed);
    const int n_shares = share.n_shares.load(std::memory_order_relaxed);
    if (!share.word.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    run_item(work, share_begin(n_items, index + 1, n_shares) - unclaimed_of(seen));
    job_items = static_cast<uint32_t>(n_items);
    return true;
  }
  return false;
}

void ThreadPool::run_item(const Work& work, int64_t item) {
  try {
    if (!failed_.load(std::memory_order_relaxed)) work.call(work.context, item);
  } catch (...) {
    if (!failed_.exchange(true, std::memory_order_acq_rel)) failure_ = std::current_exception();
  }
}

void ThreadPool::help(int thread, HelperCore& core) {
  const Share& own = shares_[static_cast<size_t>(thread)];
  const int n_shares = own.n_shares.load(std::memory_order_relaxed);
  core.begin_job(n_late_.load(std::memory_order_relaxed), own.caller_cpu.load(std::memory_order_relaxed));
  while (work_recorded(thread, n_shares, &core) == Worked::kUntilBreak) core.take_break(own.caller_cpu.load(std::memory_order_relaxed));
}

void ThreadPool::worker_loop(int thread) {
  const Share& own = shares_[static_cast<size_t>(thread)];
  HelperCore core;
  uint32_t seen = 0;
  const auto has_job = [&] { return job_of(own.word.load(std::memory_order_acquire)) != seen; };
  const auto is_used = [&](int used) { return thread < used || stopping_.load(); };
  for (;;) {
    for (int used = used_.load(); !is_used(used); used = used_.load()) used_.wait(used);
    await(job_, [&] { return has_job() || !is_used(used_.load(std::memory_order_relaxed)); });
    const uint32_t last = std::exchange(seen, job_of(own.word.load(std::memory_order_acquire)));
    if (stopping_.load()) return;  // set before the word that has ended the wait, and looked at after it
    if (seen == last) continue;    // unused from now on
    help(thread, core);
  }
}

}  // namespace kvik
