#include "engine/decoder.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/elapsed.h"
#include "kv/pages.h"

namespace kvik::engine {
namespace {

using Clock = std::chrono::steady_clock;

bool is_computed(const Stream& stream) {
  return std::ranges::all_of(stream.branches, [](const Sequence& branch) { return branch.n_pending() == 0; });
}

// An error ends its own stream and no other.
template <class Fn>
void end_on_error(Stream& stream, Fn fn) noexcept {
  try {
    fn();
  } catch (...) {
    stream.error = std::current_exception();
    stream.finish = Finish::kStop;
  }
}

}  // namespace

Decoder::Decoder(std::shared_ptr<backend::Backend> backend, std::shared_ptr<Recorder> recorder)
    : backend_(std::move(backend)),
      recorder_(std::move(recorder)),
      workers_(backend_->pool(), static_cast<size_t>(backend_->traits().vocab)) {
  if (recorder_ == nullptr) return;
  choose_kind_ = recorder_->kind("choose token");
  if (backend_->traits().name != "native") run_kind_ = recorder_->kind("run");  // native operations are recorded one by one
}

Error Decoder::no_memory() const { return kv::no_memory(backend_->cache_memory().limit_bytes); }

size_t Decoder::preferred_rows() const { return static_cast<size_t>(std::max(1, backend_->preferred_chunk())); }

StepStatus Decoder::step(std::span<Stream* const> streams, size_t max_prompt_rows) {
  for (Stream* stream : streams) {
    if (stream->speculation != nullptr) propose(*stream);
  }
  Job job{.streams = streams, .max_prompt_rows = max_prompt_rows, .joins = backend_->traits().exact};
  submit(job);
  return job.status;
}

// On the caller's thread and before it waits for its turn: a draft model has a decode loop of its own, which may even be this one.
void Decoder::propose(Stream& stream) const {
  const backend::Traits& traits = backend_->traits();
  if (stream.finish || stream.branches.size() != 1 || stream.strategy == nullptr || stream.strategy->wants_every_row()) return;
  Sequence& branch = stream.branches.front();
  if (!traits.exact || !traits.can_rewind || branch.n_pending() != 1 || branch.next_is_ahead()) return;
  branch.reserve_ahead(static_cast<size_t>(stream.speculation->most_rows()));
  branch.drop_ahead();
  stream.speculation->propose(branch);
}

backend::RunStatus Decoder::run(std::span<const backend::Row> rows, std::span<backend::Cache* const> caches, backend::Logits& logits) {
  Job job{.rows = rows, .caches = caches, .logits = &logits};
  submit(job);
  return job.status == StepStatus::kNoMemory ? backend::RunStatus::kNoMemory : backend::RunStatus::kDone;
}

void Decoder::submit(Job& job) {
  queue_.run(job, [this](std::span<Job* const> jobs) { do_jobs(jobs); });
  if (job.error) std::rethrow_exception(job.error);
}

// Together if that works. If it does not, each alone, so that one thread's failure or want of memory is not another's.
void Decoder::do_jobs(std::span<Job* const> jobs) noexcept {
  if (jobs.size() > 1) {
    try {
      streams_.clear();
      size_t max_prompt_rows = 0;  // the smallest that is set
      for (const Job* job : jobs) {
        streams_.insert(streams_.end(), job->streams.begin(), job->streams.end());
        if (job->max_prompt_rows > 0)
          max_prompt_rows = max_prompt_rows > 0 ? std::min(max_prompt_rows, job->max_prompt_rows) : job->max_prompt_rows;
      }
      if (step_together(streams_, max_prompt_rows) != StepStatus::kNoMemory) return;
    } catch (...) {}  // nothing has changed
  }
  for (Job* job : jobs) do_alone(*job);
}

void Decoder::do_alone(Job& job) noexcept {
  try {
    if (job.logits == nullptr) {
      job.status = step_together(job.streams, job.max_prompt_rows);
    } else if (backend_->run(job.rows, job.caches, *job.logits) == backend::RunStatus::kNoMemory) {
      job.status = StepStatus::kNoMemory;
    }
  } catch (...) { job.error = std::current_exception(); }
}

StepStatus Decoder::step_together(std::span<Stream* const> streams, size_t max_prompt_rows) {
  step_began_ = Clock::now();
  plan(streams, max_prompt_rows);
  LogitsBuffer::Ref logits;
  if (!rows_.empty()) {
    logits = pool_.take();
    reserve_logits(logits);
    backend::RunStatus status = run_planned(logits);
    if (status == backend::RunStatus::kNoMemory && n_proposed_ > 0) {
      for (Stream* stream : streams) {
        if (stream->speculation != nullptr) stream->speculation->withdraw();
      }
      plan(streams, max_prompt_rows);
      status = run_planned(logits);
    }
    if (status == backend::RunStatus::kNoMemory && source_cache_.free_idle()) status = run_planned(logits);
    if (status == backend::RunStatus::kNoMemory) return StepStatus::kNoMemory;
  }
  return commit(streams, logits);
}

// So that the deepest proposal of a stream is not the one that allocates.
void Decoder::reserve_logits(const LogitsBuffer::Ref& logits) const {
  int n_rows = shares_.back().first_logits + shares_.back().n_logits - n_proposed_;
  for (const Share& share : shares_) n_rows += share.stream->speculation != nullptr ? share.stream->speculation->most_rows() : 0;
  logits.logits().reserve(n_rows, backend_->traits().vocab);
}

backend::RunStatus Decoder::run_planned(const LogitsBuffer::Ref& logits) {
  const Clock::time_point start = Clock::now();
  const RecordedScope recorded(run_kind_ > 0 ? recorder_.get() : nullptr, run_kind_);
  const backend::RunStatus status = backend_->run(rows_, caches_, logits.logits());
  run_ms_ = ms_since(start);
  return status;
}

// Changes nothing but what is pending: single steps of all streams, then as much of their prompts as there is room for, beginning with
// another stream each time. A sequence that crosses a length switch becomes pending as a whole, for its final length. While a stream has
// tokens that were computed ahead and are chosen now nothing runs, so that the next run has rows of every stream.
void Decoder::plan(std::span<Stream* const> streams, size_t max_prompt_rows) {
  shares_.clear();
  rows_.clear();
  caches_.clear();
  n_proposed_ = 0;
  has_prompts_ = false;
  bool is_ahead = false;
  for (Stream* stream : streams) {
    if (stream->finish) continue;
    const bool reads_logits = stream->strategy != nullptr && !stream->strategy->wants_every_row();
    for (Sequence& branch : stream->branches) {
      if (reads_logits) branch.need_logits();
      is_ahead |= branch.next_is_ahead();
    }
  }
  if (is_ahead) return;
  for (Stream* stream : streams) {
    if (stream->finish) continue;
    for (size_t i = 0; i < stream->branches.size(); ++i) {
      Sequence& branch = stream->branches[i];
      if (branch.n_pending() > 0) branch.drop_ahead();
      if (branch.must_restart()) branch.restart();
      if (branch.n_pending() == 1) plan_branch(*stream, i, 1);
    }
  }
  const size_t chunk = preferred_rows();
  size_t room = chunk > rows_.size() ? chunk - rows_.size() : 1;
  if (max_prompt_rows > 0) room = std::min(room, max_prompt_rows);
  const size_t first = n_steps_++;
  for (size_t n = 0; n < streams.size() && room > 0; ++n) {
    Stream& stream = *streams[(first + n) % streams.size()];
    for (size_t i = 0; !stream.finish && i < stream.branches.size() && room > 0; ++i) {
      const size_t n_pending = stream.branches[i].n_pending();
      if (n_pending < 2) continue;
      has_prompts_ = true;
      const size_t n_rows = std::max(std::min(n_pending, room), fewest_rows(stream.branches[i]));
      plan_branch(stream, i, n_rows);
      room -= std::min(room, n_rows);
    }
  }
}

// That the next run of a sequence may have.
size_t Decoder::fewest_rows(const Sequence& sequence) const {
  const backend::Traits& traits = backend_->traits();
  const auto length = static_cast<int64_t>(sequence.n_tokens()), n_computed = int64_t{sequence.running_cache().length()};
  if (!traits.switches_per_run || length <= traits.switch_after || n_computed > traits.switch_after) return 1;
  return static_cast<size_t>(traits.switch_after + 1 - n_computed);
}

void Decoder::plan_branch(Stream& stream, size_t branch, size_t n_rows) {
  const Sequence& sequence = stream.branches[branch];
  const std::span<const TokenId> pending = sequence.pending();
  const bool every = stream.strategy != nullptr && stream.strategy->wants_every_row();
  const auto n_tokens = static_cast<int>(sequence.n_tokens());
  backend::Cache& cache = sequence.running_cache();
  const int first_logits = shares_.empty() ? 0 : shares_.back().first_logits + shares_.back().n_logits;
  const size_t first_row = rows_.size();
  int n_logits = 0;
  for (size_t i = 0; i < n_rows; ++i) {
    const int position = cache.length() + static_cast<int>(i);
    const bool wants_logits = position + 1 == n_tokens || (every && position >= sequence.length());
    rows_.push_back({pending[i], position, static_cast<int>(caches_.size()), wants_logits});
    n_logits += wants_logits ? 1 : 0;
  }
  int n_proposed = 0;
  if (stream.speculation != nullptr && stream.branches.size() == 1 && sequence.room_ahead() >= stream.speculation->proposed().size()) {
    for (const TokenId token : stream.speculation->proposed())
      rows_.push_back({token, n_tokens + n_proposed++, static_cast<int>(caches_.size()), true, -1, true});
  }
  caches_.push_back(&cache);
  if (n_proposed > 0) n_proposed += plan_other(stream, n_tokens);
  const int n_candidates = stream.strategy == nullptr ? stream.n_candidates : every ? 0 : stream.strategy->n_candidates();
  for (size_t i = first_row; i < rows_.size(); ++i) rows_[i].n_candidates = n_candidates;
  n_proposed_ += n_proposed;
  shares_.push_back({&stream, branch, first_logits, n_logits + n_proposed, n_proposed});
}

// Rows of a second continuation, which branches off the first: a sequence of its own.
int Decoder::plan_other(Stream& stream, int n_tokens) {
  const Speculation& speculation = *stream.speculation;
  if (speculation.other().empty()) return 0;
  const auto branch = static_cast<int>(speculation.branch());
  int after = static_cast<int>(rows_.size() - speculation.proposed().size()) - 1 + branch, position = n_tokens + branch;
  for (const TokenId token : speculation.other())
    rows_.push_back({token, position++, static_cast<int>(caches_.size()), true, std::exchange(after, -1), true});
  caches_.push_back(&stream.branches.front().fork_for_other());
  return static_cast<int>(speculation.other().size());
}

StepStatus Decoder::commit(std::span<Stream* const> streams, const LogitsBuffer::Ref& logits) {
  const RecordedScope recorded(recorder_.get(), choose_kind_);
  for (const Share& share : shares_) commit_rows(share, logits);
  choices_.clear();
  size_t n_logits = 0;
  for (Stream* stream : streams) {
    for (size_t i = 0; !stream->finish && i < stream->branches.size(); ++i) {
      if (!stream->branches[i].next_is_ahead()) continue;
      stream->branches[i].accept_ahead();
      ++stream->timing.n_accepted;
      if (stream->speculation != nullptr) stream->speculation->add_accepted();
    }
    if (stream->finish || stream->strategy == nullptr || !is_computed(*stream)) continue;
    choices_.push_back({stream, {}});
    for (const Sequence& branch : stream->branches) {
      const size_t n_candidates = branch.known_candidates().size();
      n_logits += n_candidates > 0 ? n_candidates : static_cast<size_t>(backend_->traits().vocab);
    }
  }
  workers_.for_each(choices_.size(), n_logits, [&](size_t i) { choose(choices_[i]); });
  for (const Choice& choice : choices_) {
    if (choice.stream->error) continue;
    end_on_error(*choice.stream, [&] { advance(choice); });
  }
  return shares_.empty() && choices_.empty() ? StepStatus::kIdle : StepStatus::kWorked;
}

// On any thread, at the same time as those of other streams.
void Decoder::choose(Choice& choice) noexcept {
  Stream& stream = *choice.stream;
  end_on_error(stream, [&] { choice.continuations = stream.strategy->advance(stream.branches, workers_); });
}

void Decoder::commit_rows(const Share& share, const LogitsBuffer::Ref& logits) {
  Sequence& sequence = share.stream->branches[share.branch];
  Strategy* const strategy = share.stream->strategy.get();
  if (strategy != nullptr && strategy->wants_every_row()) {
    const int first_position = sequence.running_cache().length() - share.n_logits;
    for (int i = 0; i < share.n_logits; ++i) strategy->see(first_position + i, logits.logits().row(share.first_logits + i));
  }
  const int n_logits = share.n_logits - share.n_proposed, last = share.first_logits + n_logits - 1;
  Timing& timing = share.stream->timing;
  if (Speculation* const speculation = share.stream->speculation.get(); speculation != nullptr) {
    speculation->add_run(has_prompts_ ? 0 : run_ms_);
    if (share.n_proposed > 0) {
      const std::span<const TokenId> proposed = speculation->proposed();
      sequence.commit_ahead(proposed, logits, last + 1);
      sequence.commit_other(speculation->branch(), speculation->other(), last + 1 + static_cast<int>(proposed.size()));
    }
    speculation->withdraw();
  }
  timing.n_proposed += share.n_proposed;
  if (strategy != nullptr && share.branch == 0 && timing.n_generated > 0) ++timing.n_runs;
  sequence.commit(n_logits > 0 ? LogitsRow(logits, last) : LogitsRow());
}

void Decoder::advance(const Choice& choice) {
  Stream& stream = *choice.stream;
  Timing& timing = stream.timing;
  timing.mask_ms = stream.strategy->mask_ms();
  if (timing.n_generated++ == 0) {
    timing.first_token_ms = ms_since(stream.started);
  } else {
    timing.decode_ms += ms_since(step_began_) + (stream.speculation != nullptr ? stream.speculation->take_search_ms() : 0);
    ++timing.n_decoded;
  }
  if (choice.continuations.empty()) {
    stream.finish = stream.strategy->finish();
    return;
  }
  continue_branches(stream, choice.continuations);
  for (size_t i = 0; stream.recompute && i < stream.branches.size(); ++i) stream.branches[i].restart();
}

// Every new branch continues an old one: the old one itself if it is the last to need it, else a fork.
void Decoder::continue_branches(Stream& stream, std::span<const sample::Continuation> continuations) {
  if (continuations.size() == 1 && stream.branches.size() == 1) {
    Sequence& branch = stream.branches.front();
    branch.push(continuations.front().token);
    if (branch.branch_ahead() && stream.speculation != nullptr) stream.speculation->add_branched();
    return;
  }
  std::vector<Sequence> next;
  next.reserve(continuations.size());
  for (size_t i = 0; i < continuations.size(); ++i) {
    const size_t from = continuations[i].from;
    const bool needed_again = std::any_of(continuations.begin() + static_cast<std::ptrdiff_t>(i) + 1, continuations.end(),
                                          [&](const sample::Continuation& later) { return later.from == from; });
    next.push_back(needed_again ? stream.branches[from].fork() : std::move(stream.branches[from]));
    next.back().push(continuations[i].token);
  }
  stream.branches = std::move(next);
}

void Decoder::finish(std::span<Stream* const> streams, const std::function<bool()>& cancelled) {
  std::vector<Stream*> running(streams.begin(), streams.end());
  while (!running.empty()) {
    if (cancelled && cancelled()) break;
    if (step(running) == StepStatus::kNoMemory) throw no_memory();
    std::erase_if(running, [](const Stream* stream) { return stream->finish.has_value(); });
  }
  for (Stream* stream : running) stream->finish = Finish::kCancelled;
  for (const Stream* stream : streams) {
    if (stream->error) std::rethrow_exception(stream->error);
  }
}

AppendStatus Decoder::append(Stream& stream, std::span<const TokenId> tokens, const Watch& watch) {
  if (tokens.empty()) return AppendStatus::kDone;
  const Clock::time_point start = Clock::now();
  Sequence& sequence = stream.branches.front();
  sequence.drop_pending();
  if (!sequence.has_room_for(tokens.size())) return AppendStatus::kContextFull;
  const int n_before = sequence.length();
  int n_reused = 0;
  LogitsRow logits = sequence.logits_;
  try {
    for (const TokenId token : tokens) sequence.push(token);
    if (tokens.size() > 1) {
      const bool sees_every_row = stream.strategy != nullptr && stream.strategy->wants_every_row();
      if (!sees_every_row) n_reused = sequence.use_known_prefix();
      if (!backend_->traits().can_rewind) sequence.keep_until_computed();
    }
    Stream* const alone[] = {&stream};
    while (sequence.n_pending() > 0) {
      if (watch.cancelled && watch.cancelled()) {
        sequence.undo(n_before, std::move(logits));
        return AppendStatus::kCancelled;
      }
      if (step(alone) == StepStatus::kNoMemory) {
        sequence.undo(n_before, std::move(logits));
        return AppendStatus::kNoMemory;
      }
      const size_t n_done = tokens.size() - std::min(tokens.size(), sequence.n_pending());
      if (watch.progress) watch.progress(static_cast<int>(n_done), static_cast<int>(tokens.size()));
    }
  } catch (...) {
    sequence.undo(n_before, std::move(logits));
    throw;
  }
  const bool is_step = n_before > 0 && tokens.size() == 1;
  (is_step ? stream.timing.decode_ms : stream.timing.prefill_ms) += ms_since(start);
  (is_step ? stream.timing.n_decoded : stream.timing.n_prompt) += static_cast<int>(tokens.size()) - n_reused;
  stream.timing.n_runs += is_step ? 1 : 0;
  stream.timing.n_reused += n_reused;
  if (!is_step) sequence.share_prefix(true);
  return AppendStatus::kDone;
}

AppendStatus Decoder::compute(Stream& stream) {
  Stream* const alone[] = {&stream};
  while (!is_computed(stream)) {
    if (step(alone) == StepStatus::kNoMemory) return AppendStatus::kNoMemory;
  }
  return AppendStatus::kDone;
}

AppendStatus Decoder::append_each(std::span<Stream* const> streams, std::span<const TokenId> tokens) {
  if (streams.size() != tokens.size())
    throw Error(Code::kBadArgument, fmt::format("{} sequences got {} tokens; one each was expected", streams.size(), tokens.size()));
  for (Stream* stream : streams) {
    Sequence& sequence = stream->branches.front();
    if (&sequence.backend() != backend_.get()) throw Error(Code::kBadArgument, "sequences of different models cannot share a step");
    sequence.drop_pending();
    if (!sequence.has_room_for(1)) return AppendStatus::kContextFull;
  }
  const Clock::time_point start = Clock::now();
  std::vector<Sequence> before;  // if a sequence must be recomputed, which may take several runs
  const auto roll_back = [&] {
    for (size_t i = 0; i < streams.size(); ++i) {
      Sequence& sequence = streams[i]->branches.front();
      if (i < before.size()) sequence = std::move(before[i]);
      sequence.drop_pending();
    }
  };
  try {
    for (size_t i = 0; i < streams.size(); ++i) {
      if (streams[i]->branches.front().n_pending() > 0)
        throw Error(Code::kBadArgument, "a sequence occurs twice in one step; different ones were expected");
      streams[i]->branches.front().push(tokens[i]);
    }
    if (std::ranges::any_of(streams, [](const Stream* stream) { return stream->branches.front().must_restart(); })) {
      for (const Stream* stream : streams) before.push_back(stream->branches.front().fork());
    }
    while (!std::ranges::all_of(streams, [](const Stream* stream) { return is_computed(*stream); })) {
      if (step(streams) != StepStatus::kNoMemory) continue;
      roll_back();
      return AppendStatus::kNoMemory;
    }
  } catch (...) {
    roll_back();
    throw;
  }
  for (Stream* stream : streams) stream->timing.decode_ms += ms_since(start), ++stream->timing.n_decoded, ++stream->timing.n_runs;
  return AppendStatus::kDone;
}

}  // namespace kvik::engine
