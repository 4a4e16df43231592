#include "engine/scheduler.h"

#include <algorithm>

#include "base/elapsed.h"

namespace kvik::engine {
namespace {

using Clock = std::chrono::steady_clock;

size_t most_rows_of(const Decoder& decoder) { return decoder.backend().traits().generates ? decoder.preferred_rows() : kMostSideRows; }

}  // namespace

Scheduler::Scheduler(std::shared_ptr<Decoder> decoder, SchedulerLimits limits)
    : decoder_(std::move(decoder)),
      limits_(limits),
      prompt_share_(most_rows_of(*decoder_), limits.max_step_ms),
      thread_([this] { run(); }) {}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  room_.notify_all();
  thread_.join();
}

bool Scheduler::try_submit(std::shared_ptr<Request> request) {
  const std::lock_guard lock(mutex_);
  if (n_waiting_ >= limits_.max_waiting) return false;
  arrived_.push_back(std::move(request));
  ++n_waiting_;
  work_.notify_one();
  return true;
}

void Scheduler::submit(std::shared_ptr<Request> request) {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [&] { return stopping_ || n_waiting_ < limits_.max_waiting; });
  arrived_.push_back(std::move(request));
  ++n_waiting_;
  work_.notify_one();
}

Scheduler::Load Scheduler::load() const {
  const std::lock_guard lock(mutex_);
  return {n_running_.load(), n_waiting_, n_preempted_.load()};
}

void Scheduler::run() {
  for (bool works = true;;) {
    {
      constexpr std::chrono::milliseconds kPause(1);  // all requests wait for memory that others outside this engine hold
      std::unique_lock lock(mutex_);
      if (!works && !jobs_.empty()) work_.wait_for(lock, kPause, [&] { return stopping_ || !arrived_.empty(); });
      work_.wait(lock, [&] { return stopping_ || !arrived_.empty() || !jobs_.empty(); });
      take_arrived();
      if (stopping_) break;
    }
    end_cancelled_and_empty();
    works = join() || !running_.empty();
    if (!running_.empty()) step();
  }
  while (!jobs_.empty()) end(jobs_.front(), true, nullptr);
}

// With the mutex held.
void Scheduler::take_arrived() {
  for (std::shared_ptr<Request>& request : arrived_) jobs_.push_back(std::make_shared<Job>(Job{.request = std::move(request)}));
  arrived_.clear();
}

void Scheduler::end_cancelled_and_empty() {
  std::vector<std::pair<std::shared_ptr<Job>, bool>> ending;
  for (const std::shared_ptr<Job>& job : jobs_) {
    const bool cancelled = job->request->is_cancelled();
    const bool is_empty = !job->has_begun && job->work().next() == NextPart::kNone;
    if (cancelled || is_empty) ending.emplace_back(job, cancelled);
  }
  for (const auto& [job, cancelled] : ending) end(job, cancelled, nullptr);
}

void Scheduler::step() {
  streams_.clear();
  bool some_decode = false;
  size_t n_prompt_rows = 0;
  for (const Entry& entry : running_) {
    streams_.push_back(entry.part.stream.get());
    const size_t n_pending = entry.part.stream->branches.front().n_pending();
    some_decode |= n_pending <= 1;
    if (n_pending > 1) n_prompt_rows += n_pending;
  }
  const bool shares = some_decode && n_prompt_rows + n_side_rows_ > 0;
  const size_t n_allowed = prompt_share_.rows(), n_left = n_allowed - std::min(n_allowed - 1, n_side_rows_);
  const Clock::time_point start = Clock::now();
  try {
    if (decoder_->step(streams_, shares ? n_left : 0) == StepStatus::kNoMemory) return preempt_youngest();
  } catch (...) { return step_each_alone(); }           // nothing has changed
  const bool is_divisible = n_side_rows_ <= n_allowed;  // if not, fewer rows would not have made it shorter
  const bool is_full = some_must_wait_ || n_prompt_rows + n_side_rows_ >= n_allowed;
  if (shares && is_divisible && is_full) prompt_share_.add_step(side_ms_ + ms_since(start));
  report();
}

// One of the streams makes the run fail: it must not be the end of the others.
void Scheduler::step_each_alone() {
  std::vector<std::pair<std::shared_ptr<Job>, std::exception_ptr>> failed;
  for (const Entry& entry : running_) {
    Stream* const alone[] = {entry.part.stream.get()};
    try {
      if (decoder_->step(alone) == StepStatus::kNoMemory) continue;  // the next step of all preempts one
    } catch (...) { failed.emplace_back(entry.job, std::current_exception()); }
  }
  for (const auto& [job, error] : failed) end(job, false, error);
  report();
}

void Scheduler::preempt_youngest() {
  if (running_.size() == 1) return end(running_.front().job, false, std::make_exception_ptr(decoder_->no_memory()));
  Entry entry = std::move(running_.back());
  running_.pop_back();
  n_running_ = running_.size();
  ++n_preempted_;
  release(entry);
  entry.wait_for_end = n_ended_ + 1;
  preempted_.push_front(std::move(entry));
}

// A source is freed too: it may be larger than the cache, and is encoded again with the same bits.
void Scheduler::release(Entry& entry) {
  Stream& stream = *entry.part.stream;
  if (!entry.part.input.defined()) {
    for (Sequence& branch : stream.branches) branch.release();
    return;
  }
  for (const Sequence& branch : stream.branches) {
    const std::span<const TokenId> tokens = branch.all_tokens();
    entry.branches.emplace_back(tokens.begin(), tokens.end());
  }
  stream.branches.clear();
  entry.part.source = nullptr;
}

void Scheduler::report() {
  std::vector<std::pair<Entry, std::exception_ptr>> ended;
  for (Entry& entry : running_) {
    Stream& stream = *entry.part.stream;
    std::exception_ptr error = stream.error;
    try {
      if (stream.timing.n_generated > entry.n_generated) add_generated(entry);
    } catch (...) { error = std::current_exception(); }
    if (stream.finish || error) ended.emplace_back(std::move(entry), std::move(error));
  }
  std::erase_if(running_, [](const Entry& entry) { return entry.job == nullptr; });
  n_running_ = running_.size();
  for (auto& [entry, error] : ended) end_part(std::move(entry), std::move(error));
}

void Scheduler::add_generated(Entry& entry) {
  Stream& stream = *entry.part.stream;
  if (entry.n_generated == 0 && stream.timing.prefill_ms == 0) {
    stream.timing.prefill_ms = ms_since(entry.joined);
    stream.branches.front().share_prefix(true);  // requests that come now begin behind this prompt
  }
  entry.n_generated = stream.timing.n_generated;
  entry.job->work().generated(entry.part);
}

// Of an entry that is in no list any more.
void Scheduler::end_part(Entry entry, std::exception_ptr error) {
  const std::shared_ptr<Job> job = std::move(entry.job);
  --job->n_running;
  ++n_ended_;
  if (job->has_ended) return;
  try {
    if (error == nullptr && entry.part.stream != nullptr) job->work().finished(entry.part);
  } catch (...) { error = std::current_exception(); }
  entry.part = {};  // frees the cache before readers are notified
  const bool is_last = job->n_running == 0 && job->work().next() == NextPart::kNone;
  if (error != nullptr || is_last) end(job, false, std::move(error));
}

void Scheduler::end(const std::shared_ptr<Job>& job, bool cancelled, std::exception_ptr error) {
  if (job->has_ended) return;
  const std::shared_ptr<Job> kept = job;  // `job` may be in one of the lists
  kept->has_ended = true;
  const auto is_of_job = [&](const Entry& entry) { return entry.job == kept; };
  n_ended_ += static_cast<int64_t>(std::erase_if(running_, is_of_job) + std::erase_if(preempted_, is_of_job));
  std::erase(jobs_, kept);
  n_running_ = running_.size();
  if (!kept->has_begun) stop_waiting(*kept);
  kept->request->ended(cancelled, std::move(error));
}

void Scheduler::stop_waiting(Job& job) {
  job.has_begun = true;
  {
    const std::lock_guard lock(mutex_);
    --n_waiting_;
  }
  room_.notify_all();
}

}  // namespace kvik::engine
