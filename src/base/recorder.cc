#include "base/recorder.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "base/json.h"
#include "kvik/profile.h"

namespace kvik {
namespace {

constexpr int64_t kMostEvents = 1'000'000;

}  // namespace

Recorder::Events::~Events() {
  while (first != nullptr) first = std::move(first->next);  // not one inside another: there may be many
}

Recorder::Recorder(bool timeline) : timeline_(timeline) {}
Recorder::~Recorder() = default;

int Recorder::kind(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (const auto found = kinds_.find(name); found != kinds_.end()) return found->second;
  const auto id = static_cast<int>(totals_.size());
  totals_.push_back({.name = std::string(name)});
  kinds_.emplace(name, id);
  return id;
}

void Recorder::add(int kind, int64_t begin_ns, int64_t end_ns, Work work) {
  const std::lock_guard lock(mutex_);
  count(kind, end_ns - begin_ns, work);
  if (timeline_) keep(driver_, {kind, begin_ns, end_ns});
}

void Recorder::add_shared(int kind, int64_t begin_ns, Work work, int n_sharing) {
  const std::lock_guard lock(mutex_);
  count(kind, (now_ns() - begin_ns) / n_sharing, work);
}

void Recorder::count(int kind, int64_t ns, const Work& work) {
  Total& total = totals_[static_cast<size_t>(kind)];
  ++total.calls;
  total.ns += ns;
  total.work.bytes += work.bytes;
  total.work.multiplications += work.multiplications;
}

void Recorder::add_worker(int worker, int64_t begin_ns) {
  const int kind = current_.load(std::memory_order_relaxed);
  if (timeline_ && kind >= 0 && worker < kMaxThreads) keep(workers_[static_cast<size_t>(worker)], {kind, begin_ns, now_ns()});
}

void Recorder::keep(Events& events, const Event& event) {
  if (n_events_.fetch_add(1, std::memory_order_relaxed) >= kMostEvents) return;
  const size_t n = events.count.load(std::memory_order_relaxed);
  if (n % Events::kBlock == 0) {
    auto block = std::make_unique<Events::Block>();
    Events::Block* const added = block.get();
    (events.last == nullptr ? events.first : events.last->next) = std::move(block);
    events.last = added;
  }
  events.last->events[n % Events::kBlock] = event;
  events.count.store(n + 1, std::memory_order_release);
}

std::vector<Recorder::Total> Recorder::totals() const {
  const std::lock_guard lock(mutex_);
  std::vector<Total> result;
  std::ranges::copy_if(totals_, std::back_inserter(result), [](const Total& total) { return total.calls > 0; });
  return result;
}

std::string Recorder::trace_json() const {
  const std::lock_guard lock(mutex_);
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* separator = "\n";
  const auto name_thread = [&](int thread, const std::string& name) {
    json += fmt::format("{}{{\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":\"{}\"}}}}", separator, thread,
                        name);
    separator = ",\n";
  };
  const auto write = [&](int thread, const Events& events) {
    const size_t count = events.count.load(std::memory_order_acquire);
    const Events::Block* block = events.first.get();
    for (size_t i = 0; i < count; ++i) {
      if (i > 0 && i % Events::kBlock == 0) block = block->next.get();
      const Event& event = block->events[i % Events::kBlock];
      fmt::format_to(std::back_inserter(json), "{}{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"name\":{},\"ts\":{:.3f},\"dur\":{:.3f}}}",
                     separator, thread, Json(totals_[static_cast<size_t>(event.kind)].name).dump(),
                     static_cast<double>(event.begin_ns - started_ns_) * 1e-3, static_cast<double>(event.end_ns - event.begin_ns) * 1e-3);
    }
  };
  name_thread(0, "steps");
  write(0, driver_);
  for (int worker = 0; worker < kMaxThreads; ++worker) {
    const Events& events = workers_[static_cast<size_t>(worker)];
    if (events.count.load(std::memory_order_acquire) == 0) continue;
    name_thread(worker + 1, fmt::format("worker {}", worker));
    write(worker + 1, events);
  }
  return json + "\n]}\n";
}

Profile::Profile(bool timeline) : recorder_(std::make_shared<Recorder>(timeline)) {}

std::vector<OpTime> Profile::ops() const {
  std::vector<OpTime> ops;
  for (const Recorder::Total& total : recorder_->totals()) {
    ops.push_back({total.name, total.calls, static_cast<double>(total.ns) * 1e-9, static_cast<double>(total.work.bytes),
                   static_cast<double>(total.work.multiplications)});
  }
  std::ranges::stable_sort(ops, [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
  return ops;
}

std::string Profile::trace() const { return recorder_->trace_json(); }

}  // namespace kvik
