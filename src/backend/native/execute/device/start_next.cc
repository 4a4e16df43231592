// The calls that a DeviceRunner starts before it is asked for them.
#include <algorithm>
#include <cstring>

#include "backend/native/execute/device/device_runner.h"
#include "kvik/error.h"

namespace kvik::native {

// Whether a token chosen by the device can be the next input, and pages hold all state that one call leaves for the next.
bool DeviceRunner::plan_can_run_ahead() const {
  return !plan().one_token && plan().registers.empty() && plan().embedding == kNoIndex && plan().output.offset == 0 &&
         most_token_ >= output_size() - 1;
}

// The program of this call, if it was started and nothing has changed since. Otherwise the started call has no effect: it wrote only
// positions after the ends of its sequences, and every later call writes a position before it reads it.
DeviceProgram* DeviceRunner::take_started(const RunCall& call) {
  const RunAhead::Started& started = ahead_.started();
  if (started.program == nullptr) return nullptr;
  if (started.n_page_writes == shared_->n_page_writes && shape_of(call, false) == started.program->shape) {
    assign_slots(call);
    list_rows(call, rows_);
    if (ahead_.has_rows(rows_) && holds_pages(call)) {
      DeviceProgram* const program = started.program;
      ahead_.hit();
      return program;
    }
  }
  abandon_started();
  return nullptr;
}

bool DeviceRunner::holds_pages(const RunCall& call) const {
  for (size_t s = 0; s < call.sequences.size(); ++s) {
    const RunSequence& sequence = call.sequences[s];
    if (!pages_.holds(sequence_slots_[s], pages_of(sequence))) return false;
    if (sequence.source_pages != nullptr && !source_pages_.holds(source_sequence_slots_[s], source_pages_of(sequence))) return false;
  }
  return true;
}

// Waits for the started call, because it reads host memory that the next call fills.
void DeviceRunner::abandon_started() {
  if (ahead_.started().program == nullptr) return;
  ahead_.miss();
  shared_->device->wait();
}

bool DeviceRunner::may_continue(const RunCall& call, const DeviceProgram& program) const {
  const CallShape& shape = program.shape;
  return runs_ahead() && call.kept != nullptr && shape.all_wanted && shape.apart && shape.top > 0 && !program.has_error &&
         program.segments.size() == 1 && !call.tokens.empty() &&
         std::ranges::all_of(call.n_candidates, [](int32_t n) { return choice_room(n).top > 0; });
}

// Builds the call that extends each sequence by one position. Returns false if a sequence has no writable page or the model no position
// table for it.
bool DeviceRunner::set_next_call(const RunCall& call) {
  next_rows_.assign(call.rows.begin(), call.rows.end());
  next_sequences_.assign(call.sequences.begin(), call.sequences.end());
  for (RunRow& row : next_rows_) {
    ++row.position;
    RunSequence& sequence = next_sequences_[static_cast<size_t>(row.sequence)];
    if (++sequence.n_keys > std::min(sequence.n_writable, pages_.width() * kPagePositions)) return false;
  }
  return tables_.cover(Op::Section::kBody, next_rows_) && tables_.cover(Op::Section::kTail, next_rows_);
}

// Null if logits or results would need more memory than is allocated.
DeviceProgram* DeviceRunner::find_next_program(const CallShape& shape) {
  CallShape next = shape;
  try {
    next.output_place = places_.find_next(shape.output_place);
    const OutputBytes bytes = output_bytes(next);
    const bool fits = bytes.logits <= static_cast<int64_t>(output_memory(next.output_place).size_bytes()) &&
                      bytes.results <= results_[host_place(next.output_place)].size_bytes();
    return fits ? &program_for(next) : nullptr;
  } catch (const Error& e) {
    if (e.code() != Code::kTooLarge) throw;
    return nullptr;
  }
}

// Queues the next call after this one if its rows can be predicted. Returns the mark at which this call is done.
std::optional<device::Mark> DeviceRunner::start_next(const RunCall& call, const DeviceProgram& program) {
  if (!ahead_.is_likely() || !may_continue(call, program) || !set_next_call(call)) return std::nullopt;
  RunCall next = call;
  next.rows = next_rows_;
  next.sequences = next_sequences_;
  if (shape_of(next, false) != program.shape) return std::nullopt;
  DeviceProgram* const next_program = find_next_program(program.shape);
  if (next_program == nullptr) return std::nullopt;
  list_rows(next, ahead_.next_rows());
  find_patches(next, most_patches(next_program->shape));
  block_.fill(next_program->layout, host_place(next_program->shape.output_place),
              {.rows = ahead_.next_rows(),
               .wanted = next.wanted,
               .most_group_rows = next_program->shape.group_rows,
               .patches = patches_,
               .continues = true});
  const device::Mark done = shared_->device->mark();
  execute(*next_program, next);
  ahead_.start(*next_program, shared_->n_page_writes);
  return done;
}

// After the logits were waited for.
void DeviceRunner::end_call(const RunCall& call, const DeviceProgram& program) {
  chosen_.clear();
  if (!may_continue(call, program)) return ahead_.end(chosen_);
  const ChoiceRoom room = choice_room(program.shape.top);
  for (size_t row = 0; row < call.rows.size(); ++row) {
    const std::byte* const choices = results_of(program).data() + kChoicesAt + row * room.row_bytes();
    int32_t n = 0;
    device::Choice first{};
    std::memcpy(&n, choices, sizeof n);
    std::memcpy(&first, choices + 16, sizeof first);
    chosen_.push_back(n <= room.room ? first.id : -1);
  }
  ahead_.end(chosen_);
}

}  // namespace kvik::native
