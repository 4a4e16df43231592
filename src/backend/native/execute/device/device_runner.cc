#include "backend/native/execute/device/device_runner.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "backend/native/execute/device/schedule.h"
#include "kvik/error.h"

namespace kvik::native {
namespace {

constexpr int64_t kValueBytes = int64_t{512} << 20;  // of the values of one call
constexpr size_t kMostPrograms = 72;
constexpr int32_t kMostRecordedRows = 256;

}  // namespace

DeviceRunner::DeviceRunner(Parts parts)
    : shared_(parts.device),
      memory_(std::make_shared<DeviceMemory>(parts.device)),
      plan_(std::move(parts.plan), std::move(parts.weights), parts.kv_format, parts.device),
      tables_(*plan_.plan),
      device_tables_(parts.device, plan_.plan->tables.size()),
      host_steps_(plan_, {parts.kernels, parts.pool, &tables_}),
      records_(parts.records),
      runs_ahead_(parts.runs_ahead && parts.recorder == nullptr),
      pages_(parts.device, "page tables"),
      source_pages_(parts.device, "page tables"),
      registers_(parts.device, "tables of registers") {
  static_assert(kPagePositions == device::kPagePositions);
  cache_bytes_.page = static_cast<size_t>(std::max<int64_t>(64, plan_.page_bytes));
  cache_bytes_.source_page = static_cast<size_t>(std::max<int64_t>(64, plan_.source_page_bytes));
  if (parts.recorder != nullptr) {
    const std::lock_guard lock(shared_->mutex);
    shared_->device->set_timer([recorder = parts.recorder](std::string_view kernel, double seconds, double seconds_ago) {
      const int64_t end_ns = Recorder::now_ns() - static_cast<int64_t>(seconds_ago * 1e9);
      recorder->add(recorder->kind(kernel), end_ns - static_cast<int64_t>(seconds * 1e9), end_ns, {});
    });
  }
  step_memory_.block = &block_;
  step_memory_.tables = &device_tables_;
  for (size_t i = 0; i < plan().ops.size(); ++i) {
    const Op& op = plan().ops[i];
    const auto* embed = op.as<Embed>();
    if (embed != nullptr && op.in[0].is_value() && op.in[0].index == plan().token)
      most_token_ = std::min(most_token_, plan().weights[static_cast<size_t>(embed->weight)].n - 1);
    std::vector<int>& used = device_tables_used_[static_cast<size_t>(op.section)];
    for (const Input& input : op.in) {
      if (input.is_table() && plan_.has_kernel(static_cast<OpIndex>(i)) && std::ranges::find(used, input.index) == used.end())
        used.push_back(input.index);
    }
  }
  can_run_ahead_ = plan_can_run_ahead();
}

DeviceRunner::~DeviceRunner() {
  const std::lock_guard lock(shared_->mutex);
  places_.lose_all();
  try {
    drop_programs();  // before the memory that recordings refer to
  } catch (const Error&) { programs_.clear(); }
}

int DeviceRunner::preferred_rows() const {
  return static_cast<int>(std::clamp<int64_t>(kValueBytes / std::max<int64_t>(1, plan_.placement.body_bytes), 16, 2048));
}

void DeviceRunner::clear_positions(std::byte* page, int first) const {
  for (size_t i = 0; i < plan_.attends.size(); ++i) {
    const DeviceAttend& attend = plan_.attends[i];
    if (plan().attends[i].from_source) continue;
    if (attend.on_device)
      device::clear_positions(attend.layout, page + attend.page_offset, first);
    else
      cpu::clear_positions(attend.on_host.layout, page + attend.page_offset, first);
  }
}

void DeviceRunner::copy_positions(kv::PageAddress from, kv::PageAddress to, int /*n*/) const { memory_->copy(to, from, cache_bytes_.page); }

void DeviceRunner::prepare(std::span<const RunRow> rows) {
  const std::lock_guard lock(shared_->mutex);
  for (const Op::Section section : {Op::Section::kBody, Op::Section::kTail}) {
    tables_.extend(section, rows);
    if (device_tables_.update(tables_, device_tables_used_[static_cast<size_t>(section)])) drop_programs();
  }
}

void DeviceRunner::prepare_source(std::span<const RunRow> rows) {
  const std::lock_guard lock(shared_->mutex);
  tables_.extend(Op::Section::kSource, rows);
  if (device_tables_.update(tables_, device_tables_used_[static_cast<size_t>(Op::Section::kSource)])) drop_programs();
}

void DeviceRunner::drop_programs() {
  abandon_started();
  programs_.clear();
}

void DeviceRunner::check_tokens(const RunCall& call) const {
  for (const int64_t token : call.tokens) {
    if (token < -most_token_ - 1 || token > most_token_)
      throw Error(Code::kBadArgument, fmt::format("the token {} is not in the vocabulary of {}", token, most_token_ + 1));
  }
}

void DeviceRunner::run(const RunCall& call) {
  const std::lock_guard lock(shared_->mutex);
  tables_.require(Op::Section::kBody, call.rows);
  tables_.require(Op::Section::kTail, call.rows);
  if (most_token_ < INT64_MAX) check_tokens(call);
  if (!runs_in_waves(plan(), call)) return run_rows(call);
  waves_.run(call, output_size(), [this](const RunCall& wave) { run_rows(wave); });
}

size_t DeviceRunner::most_patches(const CallShape& shape) const {
  return 64 + static_cast<size_t>(shape.rows) * (4 + plan().registers.size());
}

void DeviceRunner::reserve_buffer(DeviceBuffer& buffer, int64_t n_bytes, std::string_view what) {
  if (n_bytes <= static_cast<int64_t>(buffer.size_bytes())) return;
  drop_programs();
  buffer = DeviceBuffer();  // before the larger one: both may not fit
  buffer = DeviceBuffer(shared_, static_cast<size_t>(n_bytes), what);
}

void DeviceRunner::reserve_results(PinnedBuffer& results, size_t n_bytes) {
  if (n_bytes <= results.size_bytes()) return;
  drop_programs();
  results = PinnedBuffer();
  results = PinnedBuffer(shared_, std::bit_ceil(n_bytes));
}

// Of the logits of a call in an output place, or (-1) elsewhere.
DeviceRunner::OutputBytes DeviceRunner::output_bytes(const CallShape& shape) const {
  const size_t results = static_cast<size_t>(kChoicesAt) + choice_room(shape.top).row_bytes() * static_cast<size_t>(shape.tail_rows);
  if (shape.output_place < 0) return {0, results};
  return {place_of(plan_, shape, plan().output.index, Op::Section::kTail).stride * shape.tail_rows, results};
}

void DeviceRunner::reserve_output(const CallShape& shape) {
  const OutputBytes bytes = output_bytes(shape);
  if (shape.output_place >= 0) reserve_buffer(output_memory(shape.output_place), bytes.logits, "logits");
  reserve_results(results_[host_place(shape.output_place)], bytes.results);
}

// Returns the positions of the longest sequence and of the longest source.
std::pair<int64_t, int64_t> DeviceRunner::assign_slots(const RunCall& call) {
  slots_.begin_call();
  source_slots_.begin_call();
  sequence_slots_.clear(), source_sequence_slots_.clear();
  int64_t width = 0, source_width = 0;
  for (const RunSequence& sequence : call.sequences) {
    sequence_slots_.push_back(sequence.pages == nullptr ? 0 : slots_.of(reinterpret_cast<uintptr_t>(sequence.pages)));
    source_sequence_slots_.push_back(
        sequence.source_pages == nullptr ? 0 : source_slots_.of(reinterpret_cast<uintptr_t>(sequence.source_pages)));
    width = std::max(width, sequence.n_keys), source_width = std::max(source_width, sequence.n_source);
  }
  return {width, source_width};
}

void DeviceRunner::reserve(const CallShape& shape, const RunCall& call) {
  const Placement& placement = plan_.placement;
  const int64_t n_rows = std::max(shape.rows, shape.tail_rows);
  if (shape.source) reserve_buffer(arenas_[0], placement.source_bytes * shape.rows, "the rows of a source");
  if (!shape.source) reserve_buffer(arenas_[1], placement.body_bytes * shape.rows, "the rows of a call");
  reserve_buffer(arenas_[2], placement.tail_bytes * shape.tail_rows, "the rows that want logits");
  reserve_output(shape);
  if (shape.output_place >= 0) {
    reserve_buffer(largest_, int64_t{shape.tail_rows} * static_cast<int64_t>(sizeof(int32_t)), "chosen tokens");
    for (int32_t place = 0; runs_ahead() && place < static_cast<int32_t>(kOutputPlaces); ++place) {
      CallShape next = shape;
      next.output_place = place;
      if (place != shape.output_place && output_bytes(next).logits > static_cast<int64_t>(output_memory(place).size_bytes()))
        places_.free(place);
      reserve_output(next);
    }
  }
  reserve_buffer(halves_, plan_.half_bytes * n_rows, "the rows of products");
  int64_t part_bytes = 0;
  const auto n_parts = static_cast<int64_t>(std::bit_ceil(static_cast<uint32_t>(shape.n_parts)));  // grows rarely
  for (const AttentionSpec& attend : plan().attends)
    part_bytes = std::max(part_bytes, n_rows * attend.n_heads * n_parts * (2 + attend.value_dim) * 4);
  reserve_buffer(parts_, shape.source ? 0 : part_bytes, "attention");
  reserve_buffer(branches_, static_cast<int64_t>(call.branches.size() * sizeof(int32_t)), "the branches of a call");

  const auto [width, source_width] = assign_slots(call);
  const auto n_pages = [](int64_t n) { return (n + kPagePositions - 1) / kPagePositions; };
  const auto n_registers = static_cast<int64_t>(plan().registers.size());
  bool moved = pages_.reserve(slots_.n_slots(), n_pages(width));
  moved = source_pages_.reserve(source_slots_.n_slots(), n_pages(source_width)) || moved;
  if (n_registers > 0) moved = registers_.reserve(slots_.n_slots(), n_registers) || moved;
  moved = block_.reserve(shared_, CallLayout(shape.rows, shape.tail_rows, most_patches(shape))) || moved;
  if (moved) drop_programs();
  for (size_t i = 0; i < kArenas; ++i) step_memory_.arenas[i] = arenas_[i].address();
  step_memory_.halves = halves_.address();
  step_memory_.parts = parts_.address();
  step_memory_.branches = branches_.address();
  step_memory_.largest = largest_.address();
  for (size_t i = 0; i < kHostPlaces; ++i) step_memory_.results[i] = results_[i].address();
  step_memory_.pages = {pages_.address(), pages_.width()};
  step_memory_.source_pages = {source_pages_.address(), source_pages_.width()};
  step_memory_.registers = {registers_.address(), static_cast<int32_t>(registers_.width())};
}

DeviceProgram& DeviceRunner::program_for(const CallShape& shape) {
  ++n_calls_;
  for (const std::unique_ptr<DeviceProgram>& program : programs_) {
    if (program->shape != shape) continue;
    program->last_run = n_calls_;
    return *program;
  }
  if (programs_.size() >= kMostPrograms)
    programs_.erase(
        std::ranges::min_element(programs_, {}, [](const std::unique_ptr<DeviceProgram>& program) { return program->last_run; }));
  programs_.push_back(std::make_unique<DeviceProgram>(schedule(plan_, shape, step_memory_, shared_, most_patches(shape))));
  programs_.back()->last_run = n_calls_;
  return *programs_.back();
}

// Nothing is queued before all memory is allocated.
DeviceProgram& DeviceRunner::prepare_call(const RunCall& call, bool source) {
  abandon_started();
  const CallShape shape = shape_of(call, source);
  reserve(shape, call);
  return program_for(shape);
}

// What the device must know of the pages and registers of sequences.
void DeviceRunner::find_patches(const RunCall& call, size_t most) {
  patches_.clear();
  for (size_t s = 0; s < call.sequences.size(); ++s) {
    const RunSequence& sequence = call.sequences[s];
    if (sequence.pages != nullptr) pages_.set(sequence_slots_[s], pages_of(sequence), most, patches_);
    if (sequence.source_pages != nullptr) source_pages_.set(source_sequence_slots_[s], source_pages_of(sequence), most, patches_);
    if (sequence.registers != nullptr) registers_.set(sequence_slots_[s], {sequence.registers, plan().registers.size()}, most, patches_);
  }
}

void DeviceRunner::list_rows(const RunCall& call, std::vector<device::Row>& rows) const {
  rows.clear();
  for (size_t i = 0; i < call.rows.size(); ++i) {
    const RunRow& row = call.rows[i];
    const auto s = static_cast<size_t>(row.sequence);
    device::Row& to = rows.emplace_back();
    to.token = call.tokens.empty() ? 0 : call.tokens[i];
    to.position = static_cast<int32_t>(row.position);
    to.slot = sequence_slots_[s];
    to.source_slot = source_sequence_slots_[s];
    to.n_keys = static_cast<int32_t>(call.sequences[s].n_keys);
    to.n_source = static_cast<int32_t>(call.sequences[s].n_source);
    to.first_branch = row.first_branch;
    to.n_branches = row.n_branches;
    to.beyond = row.beyond ? 1 : 0;
  }
}

void DeviceRunner::send_rows(const RunCall& call, const DeviceProgram& program) {
  find_patches(call, most_patches(program.shape));
  list_rows(call, rows_);
  if (!call.branches.empty()) {
    branch_slots_.clear();
    for (const int32_t sequence : call.branches) branch_slots_.push_back(sequence_slots_[static_cast<size_t>(sequence)]);
    shared_->device->write(branches_.address(), std::as_bytes(std::span(branch_slots_)));
  }
  block_.fill(program.layout, host_place(program.shape.output_place), {rows_, call.wanted, program.shape.group_rows, patches_});
}

// Rows of floats into the memory of a value.
void DeviceRunner::send_value(ValueIndex value, const ValueAt& at, std::span<const float> rows, size_t n_rows) {
  const auto n_bytes = static_cast<size_t>(plan().value(value).size) * sizeof(float), stride = static_cast<size_t>(at.stride);
  staging_.resize(n_rows * stride);
  for (size_t i = 0; i < n_rows; ++i) std::memcpy(staging_.data() + i * stride, rows.data() + i * n_bytes / sizeof(float), n_bytes);
  shared_->device->write(arenas_[static_cast<size_t>(at.arena)].address() + at.offset, staging_);
}

void DeviceRunner::execute(DeviceProgram& program, const RunCall& call) {
  const bool often = program.shape.rows <= kMostRecordedRows && program.n_runs > 0;
  if (program.has_error) std::memset(results_of(program).data(), 0, sizeof(int32_t));
  HostCall host_call{call.rows, call.sequences, call.branches};
  for (Segment& segment : program.segments) {
    replay(segment, often);
    if (segment.host_op == kNoIndex) continue;
    if (plan().ops[static_cast<size_t>(segment.host_op)].section == Op::Section::kTail && !program.shape.all_wanted) {
      tail_rows_.clear();
      for (const int32_t row : call.wanted) tail_rows_.push_back(call.rows[static_cast<size_t>(row)]);
      host_call.rows = tail_rows_;
    }
    host_steps_.run(segment.host_op, program, step_memory_, host_call, *shared_->device);
  }
  ++program.n_runs;
}

// What runs once, or takes long, is not worth recording in one piece.
void DeviceRunner::replay(Segment& segment, bool often) {
  device::Device& device = *shared_->device;
  if (segment.steps.empty()) return;
  if (!records_) {
    for (const device::Step& step : segment.steps) device.run(step);
    return;
  }
  const device::Replay wanted = often ? device::Replay::kAtOnce : device::Replay::kOneByOne;
  if (segment.recording == nullptr || (often && segment.replay != wanted)) {
    segment.recording = device.record(segment.steps, wanted);
    segment.replay = wanted;
  }
  device.replay(*segment.recording);
}

// After everything was waited for.
void DeviceRunner::finish(const DeviceProgram& program) {
  if (!program.has_error) return;
  int32_t error = 0;
  std::memcpy(&error, results_of(program).data(), sizeof error);
  if (error != 0) throw Error(Code::kBadArgument, "a token that the model computes is not in its vocabulary");
}

// Rows that depend on those before them run one after another, and many rows are wanted by those who read all of them.
std::shared_ptr<OutputRows> DeviceRunner::keep_output(std::span<const int32_t> n_candidates, std::shared_ptr<OutputRows> reused) {
  constexpr size_t kMostKept = 256;
  if (n_candidates.empty() || n_candidates.size() > kMostKept || plan().one_token || !plan().registers.empty() || plan().output.offset != 0)
    return nullptr;
  const OpIndex producer = plan().value(plan().output.index).producer;
  if (producer == kNoIndex || plan().ops[static_cast<size_t>(producer)].section != Op::Section::kTail) return nullptr;
  auto rows = std::dynamic_pointer_cast<DeviceOutput>(reused);
  if (rows == nullptr || !rows->is_of(*this)) rows = std::make_shared<DeviceOutput>(shared_, this, output_size());
  const ValuePlace& place = plan_.placement.of_value[static_cast<size_t>(plan().output.index)];
  const RunAhead::Started& started = ahead_.started();
  const bool may_be_started = started.program != nullptr && started.rows.size() == n_candidates.size();
  rows->reserve(n_candidates, place.stride, places_.take(rows, may_be_started ? started.program->shape.output_place : -1));
  return rows;
}

// `done`: when the call is done, if another one was started behind it.
void DeviceRunner::read_output(const DeviceProgram& program, const RunCall& call, std::optional<device::Mark> done) {
  device::Device& device = *shared_->device;
  if (call.wanted.empty()) return device.wait();
  if (call.kept != nullptr) {
    const ValueAt kept = place_of(plan_, program.shape, plan().output.index, Op::Section::kTail);
    return static_cast<DeviceOutput&>(*call.kept)
        .take(arenas_[static_cast<size_t>(kept.arena)].address() + kept.offset, results_of(program).data() + kChoicesAt,
              choice_room(program.shape.top), done);
  }
  const ValueAt at = place_of(plan_, program.shape, plan().output.index, Op::Section::kTail);
  const auto size = static_cast<size_t>(output_size()), stride = static_cast<size_t>(at.stride);
  const size_t to_stride = static_cast<size_t>(call.stride_of_output(output_size()));
  const device::Address from = arenas_[static_cast<size_t>(at.arena)].address() + at.offset;
  if (stride == to_stride * sizeof(float) && plan().output.offset == 0)
    return device.read(std::as_writable_bytes(std::span(call.output, call.wanted.size() * to_stride)), from);
  staging_.resize(call.wanted.size() * stride);
  device.read(staging_, from);
  for (size_t i = 0; i < call.wanted.size(); ++i)
    std::memcpy(call.output + i * to_stride, staging_.data() + i * stride + static_cast<size_t>(plan().output.offset) * 4,
                size * sizeof(float));
}

// What tables on the device hold is not known afterwards, and nothing that was queued may still read what the next call fills.
template <class Work>
void DeviceRunner::forget_if_it_fails(const Work& work) {
  try {
    work();
  } catch (...) {
    ahead_.forget();
    for (AddressTable* table : {&pages_, &source_pages_, &registers_}) table->forget();
    try {
      shared_->device->wait();
    } catch (const Error&) {}
    throw;
  }
}

void DeviceRunner::run_rows(const RunCall& call) {
  DeviceProgram* program = take_started(call);
  const bool is_started = program != nullptr;
  if (!is_started) program = &prepare_call(call, false);
  forget_if_it_fails([&] {
    if (!is_started) start(call, *program);
    ahead_.begin(rows_);
    const std::optional<device::Mark> done = start_next(call, *program);
    read_output(*program, call, done);
    finish(*program);
    end_call(call, *program);
  });
}

void DeviceRunner::start(const RunCall& call, DeviceProgram& program) {
  send_rows(call, program);
  if (plan().embedding != kNoIndex) {
    const ValueAt at = place_of(plan_, program.shape, plan().embedding, Op::Section::kBody);
    send_value(plan().embedding, at, call.embeddings, call.rows.size());
  }
  execute(program, call);
}

void DeviceRunner::run_source(std::span<const RunRow> rows, std::span<const RunSequence> sources,
                              std::span<const std::span<const float>> inputs) {
  const std::lock_guard lock(shared_->mutex);
  tables_.require(Op::Section::kSource, rows);
  const RunCall call{.rows = rows, .sequences = sources};
  DeviceProgram& program = prepare_call(call, true);
  forget_if_it_fails([&] {
    send_rows(call, program);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueIndex value = plan().source_inputs[i].value;
      send_value(value, place_of(plan_, program.shape, value, Op::Section::kSource), inputs[i], rows.size());
    }
    execute(program, call);
    shared_->device->wait();
    finish(program);
  });
}

}  // namespace kvik::native
