#include "backend/native/execute/device/host_step.h"

#include <algorithm>

#include "backend/native/execute/cpu/frame.h"
#include "backend/native/execute/execute.h"

namespace kvik::native {

HostSteps::HostSteps(DevicePlan& plan, const Parts& parts)
    : plan_(plan), weights_(std::move(plan.weights.on_host)), quantized_(quantized_shapes(*plan.plan, weights_)) {
  const Plan& data = *plan.plan;
  values_.plan = &data;
  values_.kernels = parts.kernels;
  values_.pool = parts.pool;
  values_.weights = weights_;
  values_.quantized = quantized_;
  values_.tables = parts.tables;
  values_.views.resize(data.values.size());
  for (const DeviceAttend& attend : plan.attends) attentions_.push_back(attend.on_host);
  values_.attentions = attentions_;
  at_.resize(data.values.size());
  given_.resize(data.values.size());
}

void HostSteps::set_views(const DeviceProgram& program, const StepMemory& memory, Op::Section section) {
  const CallShape& shape = program.shape;
  const Placement& placement = plan_.placement;
  grow(arenas_[0], shape.source ? placement.source_bytes * shape.rows : 0);
  grow(arenas_[1], shape.source ? 0 : placement.body_bytes * shape.rows);
  grow(arenas_[2], placement.tail_bytes * shape.tail_rows);
  if (shape.output_place >= 0) {
    const ValueAt output = place_of(plan_, shape, plan_.plan->output.index, Op::Section::kTail);
    grow(arenas_[static_cast<size_t>(output.arena)], output.stride * shape.tail_rows);
  }
  for (size_t i = 0; i < values_.views.size(); ++i) {
    const auto v = static_cast<ValueIndex>(i);
    const ValueAt at = place_of(plan_, shape, v, section);
    given_[i] = at.arena == ValueAt::Arena::kRows || at.arena == ValueAt::Arena::kTailRows;
    if (given_[i]) {
      const int64_t rows = at.arena == ValueAt::Arena::kRows ? program.layout.rows : program.layout.tail_rows;
      values_.views[i] = {const_cast<std::byte*>(memory.block->host(host_place(shape.output_place))) + rows + at.offset, at.stride};
      continue;
    }
    const auto arena = static_cast<size_t>(at.arena);
    values_.views[i] = {arenas_[arena].data() + at.offset, at.stride};
    at_[i] = memory.arenas[arena] + at.offset;
  }
}

void HostSteps::read(ValueIndex value, const HostCall& call, device::Device& device) {
  if (value == kNoIndex || given_[static_cast<size_t>(value)]) return;
  const CpuValues::View& view = values_.views[static_cast<size_t>(value)];
  device.read({view.base, call.rows.size() * static_cast<size_t>(view.stride)}, at_[static_cast<size_t>(value)]);
}

void HostSteps::write(ValueIndex value, const HostCall& call, device::Device& device) {
  if (value == kNoIndex) return;
  const CpuValues::View& view = values_.views[static_cast<size_t>(value)];
  device.write(at_[static_cast<size_t>(value)], {view.base, call.rows.size() * static_cast<size_t>(view.stride)});
}

void HostSteps::run(OpIndex index, const DeviceProgram& program, const StepMemory& memory, const HostCall& call, device::Device& device) {
  const Op& op = plan_.plan->ops[static_cast<size_t>(index)];
  set_views(program, memory, op.section);
  std::vector<ValueIndex> reads = {op.selection};
  for (const Input& input : op.in) {
    if (!input.is_value()) continue;
    reads.push_back(input.index);
    reads.push_back(plan_.plan->value(input.index).selection);
  }
  std::ranges::sort(reads);
  reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
  for (const ValueIndex value : reads) read(value, call, device);
  values_.branches = call.branches;
  int64_t most_keys = 0;
  for (const RunSequence& sequence : call.sequences) most_keys = std::max({most_keys, sequence.n_keys, sequence.n_source});
  values_.reserve_scratch(static_cast<int64_t>(call.rows.size()), most_keys);
  if (const auto* append = op.as<AppendOp>()) return run_attention(index, append->attend, call, device);
  if (const auto* attend = op.as<AttendOp>())
    run_attention(index, attend->attend, call, device);
  else
    Frame(values_, call.rows, call.sequences).run(index);
  for (const ValueIndex value : op.out) write(value, call, device);
}

// The pages of all sequences of the call, as far as this attention keeps something in them.
void HostSteps::run_attention(OpIndex index, int attend, const HostCall& call, device::Device& device) {
  const DeviceAttend& attention = plan_.attends[static_cast<size_t>(attend)];
  const bool from_source = plan_.plan->attends[static_cast<size_t>(attend)].from_source;
  const bool appends = plan_.plan->ops[static_cast<size_t>(index)].as<AppendOp>() != nullptr;
  const auto pages_of = [&](const RunSequence& sequence) {
    const int64_t n = from_source ? sequence.n_source : sequence.n_keys;
    return std::span(from_source ? sequence.source_pages : sequence.pages, static_cast<size_t>((n + kPagePositions - 1) / kPagePositions));
  };
  size_t n_pages = 0;
  for (const RunSequence& sequence : call.sequences) n_pages += pages_of(sequence).size();
  grow(pages_, static_cast<int64_t>(n_pages) * attention.page_bytes);
  std::vector<std::vector<kv::PageAddress>> copies(call.sequences.size());
  std::vector<RunSequence> sequences(call.sequences.begin(), call.sequences.end());
  std::byte* next = pages_.data();
  const auto n_bytes = static_cast<size_t>(attention.page_bytes);
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (const kv::PageAddress page : pages_of(call.sequences[s])) {
      copies[s].push_back(page == nullptr ? nullptr : next);
      if (page == nullptr) continue;
      device.read({next, n_bytes}, device_address(page) + attention.page_offset);
      next += n_bytes;
    }
    (from_source ? sequences[s].source_pages : sequences[s].pages) = copies[s].data();
  }
  Frame(values_, call.rows, sequences).run(index);
  for (size_t s = 0; appends && s < sequences.size(); ++s) {
    const std::span<const kv::PageAddress> pages = pages_of(call.sequences[s]);
    for (size_t i = 0; i < pages.size(); ++i) {
      if (pages[i] != nullptr) device.write(device_address(pages[i]) + attention.page_offset, {copies[s][i], n_bytes});
    }
  }
}

}  // namespace kvik::native
