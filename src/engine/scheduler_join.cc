#include <algorithm>
#include <map>

#include "base/elapsed.h"
#include "engine/scheduler.h"
#include "kvik/error.h"

// What begins between two steps: parts of requests join, encoders and embedders run.
namespace kvik::engine {

bool Scheduler::join() {
  n_side_rows_ = 0;
  some_must_wait_ = false;
  const size_t most_rows = most_side_rows();
  while (join_next(most_rows)) {}
  const bool some = !joining_.empty();
  const auto start = std::chrono::steady_clock::now();
  embed_texts();
  encode_sources();
  side_ms_ = ms_since(start);
  for (Entry& entry : joining_) {
    if (!entry.job->has_ended) begin_stream(entry);
  }
  joining_.clear();
  n_running_ = running_.size();
  return some;
}

// While streams run these rows are part of the time that they wait for their next token; prompts need half of it.
size_t Scheduler::most_side_rows() const {
  if (running_.empty()) return kMostSideRows;
  const bool has_prompts =
      std::ranges::any_of(running_, [](const Entry& entry) { return entry.part.stream->branches.front().n_pending() > 1; });
  return std::min(kMostSideRows, has_prompts ? std::max<size_t>(1, prompt_share_.rows() / 2) : prompt_share_.rows());
}

// One that was preempted waits for the end of another, and everybody behind it waits too: they would take the memory that it needs. Texts
// need neither that memory nor a place among the streams.
bool Scheduler::join_next(size_t most_rows) {
  const auto has_room_for = [&](size_t n_rows) {
    some_must_wait_ = n_rows > 0 && n_side_rows_ > 0 && n_side_rows_ + n_rows > most_rows;
    return !some_must_wait_;
  };
  const auto is_stream = [](const Entry& entry) { return entry.job->work().embedder() == nullptr; };
  const auto n_joining = static_cast<size_t>(std::ranges::count_if(joining_, is_stream));
  const bool has_place = running_.size() + n_joining < limits_.max_streams;
  if (!preempted_.empty()) {
    Entry& first = preempted_.front();
    const bool nothing_runs = running_.empty() && n_joining == 0;
    if (has_place && (nothing_runs || first.wait_for_end <= n_ended_) && has_room_for(first.n_rows)) {
      n_side_rows_ += first.n_rows;
      joining_.push_back(std::move(first));
      preempted_.pop_front();
      return true;
    }
  }
  const std::shared_ptr<Job> job = next_job(has_place && preempted_.empty());
  return job != nullptr && has_room_for(job->work().next_rows()) && begin_part(job);
}

std::shared_ptr<Scheduler::Job> Scheduler::next_job(bool streams_too) const {
  std::map<std::string_view, size_t> n_running;
  for (const Entry& entry : running_) ++n_running[entry.job->request->user()];
  for (const Entry& entry : joining_) ++n_running[entry.job->request->user()];
  std::shared_ptr<Job> best;
  size_t fewest = 0;
  for (const std::shared_ptr<Job>& job : jobs_) {
    const auto found = n_running.find(job->request->user());
    const size_t n = found == n_running.end() ? 0 : found->second;
    if (best != nullptr && n >= fewest) continue;
    if (job->work().next() != NextPart::kReady || (!streams_too && job->work().embedder() == nullptr)) continue;
    best = job, fewest = n;
    if (n == 0) break;
  }
  return best;
}

bool Scheduler::begin_part(const std::shared_ptr<Job>& job) {
  try {
    const size_t n_rows = job->work().next_rows();
    joining_.push_back({.job = job, .part = job->work().begin(), .n_rows = n_rows});
    n_side_rows_ += n_rows;
    ++job->n_running;
    if (!job->has_begun) stop_waiting(*job);
  } catch (...) { end(job, false, std::current_exception()); }
  return true;
}

void Scheduler::embed_texts() {
  const auto embedder_of = [](const Entry& entry) { return entry.job->work().embedder(); };
  for (;;) {
    const auto first = std::ranges::find_if(joining_, [&](const Entry& entry) { return embedder_of(entry) != nullptr; });
    if (first == joining_.end()) return;
    const backend::Embedder* const embedder = embedder_of(*first);
    const auto group = std::stable_partition(joining_.begin(), joining_.end(), [&](const Entry& e) { return embedder_of(e) != embedder; });
    std::vector<Entry> entries(std::make_move_iterator(group), std::make_move_iterator(joining_.end()));
    joining_.erase(group, joining_.end());
    embed_together(entries);
  }
}

// If that fails each alone, so that one request's failure is not another's.
void Scheduler::embed_together(std::span<Entry> entries) {
  std::vector<const Part*> parts;
  for (const Entry& entry : entries) parts.push_back(&entry.part);
  std::vector<Tensor> hidden;
  std::exception_ptr error;
  try {
    hidden = embed_parts(parts, *entries.front().job->work().embedder());
  } catch (...) { error = std::current_exception(); }
  if (error != nullptr && entries.size() > 1) {
    for (Entry& entry : entries) embed_together({&entry, 1});
    return;
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    std::exception_ptr fault = error;
    try {
      if (fault == nullptr && !entries[i].job->has_ended) entries[i].job->work().embedded(entries[i].part, std::move(hidden[i]));
    } catch (...) { fault = std::current_exception(); }
    end_part(std::move(entries[i]), fault);
  }
}

// Together if a source does not depend on what is encoded beside it.
void Scheduler::encode_sources() {
  std::vector<Part*> parts;
  for (Entry& entry : joining_) {
    if (!entry.job->has_ended && entry.part.input.defined() && entry.part.source == nullptr) parts.push_back(&entry.part);
  }
  if (parts.size() > 1 && decoder_->backend().traits().exact_sources) {
    try {
      encode_parts(parts, *decoder_, limits_.reuse_sources ? &decoder_->source_cache() : nullptr);
    } catch (...) {}  // each alone then
  }
  for (Entry& entry : joining_) encode_alone(entry);
  std::erase_if(joining_, [](const Entry& entry) { return entry.job == nullptr; });
}

// Without memory it waits like a preempted part, if another part is running.
void Scheduler::encode_alone(Entry& entry) {
  if (entry.job->has_ended) return;
  Part* const alone[] = {&entry.part};
  try {
    encode_parts(alone, *decoder_, limits_.reuse_sources ? &decoder_->source_cache() : nullptr);
  } catch (const Error& e) {
    const bool others_run =
        !running_.empty() || std::ranges::any_of(joining_, [](const Entry& each) { return each.part.source != nullptr; });
    if (e.code() != Code::kTooLarge || !others_run) return end(entry.job, false, std::current_exception());
    entry.wait_for_end = n_ended_ + 1;
    preempted_.push_back(std::move(entry));
    ++n_preempted_;
  } catch (...) { end(entry.job, false, std::current_exception()); }
}

void Scheduler::begin_stream(Entry& entry) {
  Part& part = entry.part;
  try {
    if (part.stream == nullptr) part.stream = std::make_shared<Stream>(entry.job->work().stream_of(part));
    for (const std::vector<TokenId>& tokens : std::exchange(entry.branches, {})) {
      Sequence& branch = part.stream->branches.emplace_back(decoder_, 0, part.source);
      for (const TokenId token : tokens) branch.push(token);
    }
    entry.joined = std::chrono::steady_clock::now();
    int n_reused = 0, n_tokens = 0;
    for (Sequence& branch : part.stream->branches) {
      n_reused += branch.use_known_prefix();
      n_tokens += static_cast<int>(branch.n_pending());
    }
    if (part.stream->timing.n_generated == 0) {  // else it continues
      part.stream->timing.n_reused = n_reused;
      part.stream->timing.n_prompt = n_tokens;
    }
    running_.push_back(std::move(entry));
  } catch (...) { end(entry.job, false, std::current_exception()); }
}

}  // namespace kvik::engine
