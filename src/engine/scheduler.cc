#include "engine/scheduler.h"

#include <algorithm>
#include <map>

namespace kvik::engine {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point begin, Clock::time_point end) { return std::chrono::duration<double, std::milli>(end - begin).count(); }

}  // namespace

Scheduler::Scheduler(std::shared_ptr<Decoder> decoder, SchedulerLimits limits)
    : decoder_(std::move(decoder)),
      limits_(limits),
      prompt_share_(decoder_->preferred_rows(), limits.max_step_ms),
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
  if (waiting_.size() >= limits_.max_waiting) return false;
  waiting_.push_back({.request = std::move(request)});
  work_.notify_one();
  return true;
}

void Scheduler::submit(std::shared_ptr<Request> request) {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [&] { return stopping_ || waiting_.size() < limits_.max_waiting; });
  waiting_.push_back({.request = std::move(request)});
  work_.notify_one();
}

Scheduler::Load Scheduler::load() const {
  const std::lock_guard lock(mutex_);
  return {n_running_.load(), waiting_.size(), n_preempted_.load()};
}

void Scheduler::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return stopping_ || !waiting_.empty() || !running_.empty(); });
    if (stopping_) break;
    admit();
    lock.unlock();
    end_dropped();
    end_cancelled();
    if (!running_.empty()) step();
    lock.lock();
  }
  for (Entry& entry : waiting_) dropped_.push_back({std::move(entry), nullptr});
  waiting_.clear();
  lock.unlock();
  end_dropped();
  for (Entry& entry : running_) end(entry, nullptr);
  running_.clear();
}

// Without the mutex: the end of a request calls others, and frees what they gave it.
void Scheduler::end_dropped() {
  for (Dropped& dropped : dropped_) end(dropped.entry, std::move(dropped.error));
  dropped_.clear();
}

// One that was preempted waits for the end of another, and everybody behind it waits too: they would take the memory that it needs.
void Scheduler::admit() {
  std::erase_if(waiting_, [&](Entry& entry) {
    const bool cancelled = entry.request->is_cancelled();
    if (cancelled) dropped_.push_back({std::move(entry), nullptr});
    return cancelled;
  });
  while (running_.size() < limits_.max_streams) {
    const auto next = next_to_join();
    if (next == waiting_.end()) break;
    Entry entry = std::move(*next);
    waiting_.erase(next);
    try {
      join(entry);
      running_.push_back(std::move(entry));
    } catch (...) { dropped_.push_back({std::move(entry), std::current_exception()}); }
  }
  n_running_ = running_.size();
  room_.notify_all();
}

std::deque<Scheduler::Entry>::iterator Scheduler::next_to_join() {
  if (waiting_.empty()) return waiting_.end();
  if (const int64_t ends = waiting_.front().wait_for_end; ends > 0) {
    return running_.empty() || ends <= n_ended_ ? waiting_.begin() : waiting_.end();
  }
  std::map<std::string_view, size_t> n_running;
  for (const Entry& entry : running_) ++n_running[entry.request->user()];
  auto best = waiting_.end();
  size_t fewest = 0;
  for (auto entry = waiting_.begin(); entry != waiting_.end(); ++entry) {
    const auto found = n_running.find(entry->request->user());
    const size_t n = found == n_running.end() ? 0 : found->second;
    if ((best != waiting_.end() && n >= fewest) || !entry->request->is_ready()) continue;
    best = entry, fewest = n;
    if (n == 0) break;
  }
  return best;
}

void Scheduler::join(Entry& entry) const {
  entry.joined = Clock::now();
  Stream& stream = entry.request->stream();
  int n_reused = 0, n_tokens = 0;
  for (Sequence& branch : stream.branches) {
    n_reused += branch.use_known_prefix();
    n_tokens += static_cast<int>(branch.n_pending());
  }
  if (stream.timing.n_generated > 0) return;  // it continues
  stream.timing.n_reused = n_reused;
  stream.timing.n_prompt = n_tokens;
}

void Scheduler::end_cancelled() {
  for (Entry& entry : running_) {
    if (entry.request->is_cancelled()) end(entry, nullptr);
  }
  std::erase_if(running_, [](const Entry& entry) { return entry.request == nullptr; });
  n_running_ = running_.size();
}

void PromptShare::add_step(double ms) {
  if (ms > max_step_ms_) {
    rows_ = std::max(kFewestRows, static_cast<size_t>(static_cast<double>(rows_) * std::max(0.25, max_step_ms_ / ms)));
  } else if (ms < max_step_ms_ / 2) {
    rows_ = std::min(most_rows_, rows_ + rows_ / 4 + 1);
  }
  rows_ = std::min(rows_, most_rows_);
}

void Scheduler::step() {
  streams_.clear();
  bool some_decode = false;
  size_t n_prompt_rows = 0;
  for (const Entry& entry : running_) {
    Stream& stream = entry.request->stream();
    streams_.push_back(&stream);
    const size_t n_pending = stream.branches.front().n_pending();
    some_decode |= n_pending <= 1;
    if (n_pending > 1) n_prompt_rows += n_pending;
  }
  const bool shares = some_decode && n_prompt_rows > 0;
  const Clock::time_point start = Clock::now();
  try {
    if (decoder_->step(streams_, shares ? prompt_share_.rows() : 0) == StepStatus::kNoMemory) return preempt_youngest();
  } catch (...) { return step_each_alone(); }  // nothing has changed
  if (shares && n_prompt_rows >= prompt_share_.rows()) prompt_share_.add_step(ms_between(start, Clock::now()));
  report();
}

// One of the streams makes the run fail: it must not be the end of the others.
void Scheduler::step_each_alone() {
  for (Entry& entry : running_) {
    Stream* const alone[] = {&entry.request->stream()};
    try {
      if (decoder_->step(alone) == StepStatus::kNoMemory) continue;  // the next step of all preempts one
    } catch (...) { end(entry, std::current_exception()); }
  }
  std::erase_if(running_, [](const Entry& entry) { return entry.request == nullptr; });
  report();
}

void Scheduler::preempt_youngest() {
  if (running_.size() == 1) {
    end(running_.front(), std::make_exception_ptr(decoder_->no_memory()));
    running_.clear();
    n_running_ = 0;
    return;
  }
  Entry entry = std::move(running_.back());
  running_.pop_back();
  n_running_ = running_.size();
  ++n_preempted_;
  for (Sequence& branch : entry.request->stream().branches) branch.release();
  entry.wait_for_end = n_ended_ + 1;
  const std::lock_guard lock(mutex_);
  waiting_.push_front(std::move(entry));
}

void Scheduler::report() {
  for (Entry& entry : running_) {
    Stream& stream = entry.request->stream();
    if (stream.timing.n_generated > entry.n_generated) {
      if (entry.n_generated == 0 && stream.timing.prefill_ms == 0) {
        stream.timing.prefill_ms = ms_between(entry.joined, Clock::now());
        stream.branches.front().share_prefix(true);  // requests that come now begin behind this prompt
      }
      entry.n_generated = stream.timing.n_generated;
      entry.request->generated();
    }
    if (stream.finish || stream.error) end(entry, stream.error);
  }
  std::erase_if(running_, [](const Entry& entry) { return entry.request == nullptr; });
  n_running_ = running_.size();
}

void Scheduler::end(Entry& entry, std::exception_ptr error) {
  entry.request->ended(std::move(error));
  entry.request = nullptr;
  ++n_ended_;
}

}  // namespace kvik::engine
