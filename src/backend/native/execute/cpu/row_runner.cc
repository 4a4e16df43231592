#include "backend/native/execute/cpu/row_runner.h"

#include <algorithm>
#include <cstring>

#include "backend/native/execute/cpu/cpu_output.h"
#include "backend/native/execute/cpu/frame.h"

namespace kvik::native {

RowRunner::RowRunner(const CpuPlan& plan, const SectionTables& tables, ThreadPool& pool, const OpRecorder* recorder, int n_sharing)
    : cpu_plan_(plan), plan_(*plan.plan), recorder_(recorder), n_sharing_(n_sharing) {
  values_.plan = &plan_;
  values_.kernels = &plan.kernels;
  values_.pool = &pool;
  values_.weights = plan.weights;
  values_.attentions = plan.layouts.of_attend;
  values_.quantized = plan.quantized;
  values_.gate_of = plan.gate_of;
  values_.tables = &tables;
  values_.views.resize(plan_.values.size());
}

void RowRunner::reserve(Op::Section section, std::span<const RunRow> rows, std::span<const RunSequence> sequences) {
  const auto n_rows = static_cast<int64_t>(rows.size());
  SectionMemory& memory = memory_[static_cast<size_t>(section)];
  const CpuPlan::Section& of_plan = cpu_plan_.section(section);
  int64_t most_keys = 0;
  for (const RunRow& row : rows) {
    const RunSequence& sequence = sequences[static_cast<size_t>(row.sequence)];
    most_keys = std::max({most_keys, row.position + 1, sequence.n_keys, sequence.n_source});
  }
  values_.reserve_scratch(n_rows, most_keys);
  const std::byte* before = memory.arena.data();
  grow(memory.arena, of_plan.row_bytes * n_rows);
  if (memory.n_rows == n_rows && memory.arena.data() == before) return;
  for (const ValueIndex v : of_plan.values) {
    const ValuePlace& slot = cpu_plan_.placement.of_value[static_cast<size_t>(v)];
    view(v) = {memory.arena.data() + slot.offset * n_rows, slot.stride};
  }
  memory.n_rows = n_rows;
}

void RowRunner::run_ops(std::span<const OpIndex> ops, std::span<const RunRow> rows, std::span<const RunSequence> sequences) {
  Frame frame(values_, rows, sequences);
  for (const OpIndex op : ops) {
    if (recorder_ == nullptr) {
      frame.run(op);
      continue;
    }
    const RecordedScope recorded(&recorder_->recorder(), recorder_->kind(op), recorder_->work_of(op, rows, sequences), n_sharing_);
    frame.run(op);
  }
}

void RowRunner::run(const RunCall& call) {
  reserve(Op::Section::kBody, call.rows, call.sequences);
  values_.branches = call.branches;
  set_inputs(call);
  run_ops(cpu_plan_.section(Op::Section::kBody).ops, call.rows, call.sequences);
  if (call.wanted.empty()) return;
  tail_rows_.clear();
  for (const int32_t row : call.wanted) tail_rows_.push_back(call.rows[static_cast<size_t>(row)]);
  reserve(Op::Section::kTail, tail_rows_, call.sequences);
  enter_tail(call);
  const std::span<const OpIndex> ops = cpu_plan_.section(Op::Section::kTail).ops;
  run_ops(call.kept != nullptr ? ops.first(ops.size() - 1) : ops, tail_rows_, call.sequences);
  if (call.kept != nullptr) return find_largest(call);
  copy_output(call);
}

// Instead of the last op.
void RowRunner::find_largest(const RunCall& call) {
  auto& output = static_cast<CpuOutput&>(*call.kept);
  const ApproximateHead& head = *output.head();
  const CpuValues::View& from = view(head.input().index);
  const cpu::FloatRows x{reinterpret_cast<const float*>(from.base) + head.input().offset, from.stride / 4,
                         static_cast<int64_t>(tail_rows_.size())};
  const RecordedScope recorded(recorder_ == nullptr ? nullptr : &recorder_->recorder(),
                               recorder_ == nullptr ? 0 : recorder_->kind(head.op()), {}, n_sharing_);
  output.take(*values_.pool, x, call.first_kept);
}

void RowRunner::set_inputs(const RunCall& call) {
  for (size_t row = 0; row < call.rows.size(); ++row) {
    if (plan_.token != kNoIndex) {
      const CpuValues::View& to = view(plan_.token);
      std::memcpy(to.base + static_cast<int64_t>(row) * to.stride, &call.tokens[row], sizeof(int64_t));
    }
    if (plan_.embedding != kNoIndex) {
      const CpuValues::View& to = view(plan_.embedding);
      const auto size = static_cast<size_t>(plan_.value(plan_.embedding).size);
      std::memcpy(to.base + static_cast<int64_t>(row) * to.stride, call.embeddings.data() + row * size, size * sizeof(float));
    }
  }
}

// The tail sees only the rows that are wanted. Where these are all, it reads what the body left where it lies.
void RowRunner::enter_tail(const RunCall& call) {
  const Placement& placement = cpu_plan_.placement;
  if (cpu_plan_.external != kNoIndex) view(cpu_plan_.external) = {reinterpret_cast<std::byte*>(call.output), output_stride(call) * 4};
  if (call.wanted.size() == call.rows.size()) return;
  const auto n = static_cast<int64_t>(call.wanted.size());
  for (const ValueIndex v : placement.crossing) {
    const CpuValues::View from = view(v);
    const ValuePlace& slot = placement.gathered[static_cast<size_t>(v)];
    std::byte* to = memory_[2].arena.data() + slot.offset * n;
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(to + i * slot.stride, from.base + call.wanted[static_cast<size_t>(i)] * from.stride, static_cast<size_t>(slot.stride));
    view(v) = {to, slot.stride};
  }
  memory_[1].n_rows = -1;
}

void RowRunner::copy_output(const RunCall& call) {
  if (cpu_plan_.external != kNoIndex) return;
  const CpuValues::View& from = view(plan_.output.index);
  const auto size = static_cast<size_t>(plan_.output.size);
  for (size_t i = 0; i < call.wanted.size(); ++i) {
    std::memcpy(call.output + static_cast<int64_t>(i) * output_stride(call),
                from.base + static_cast<int64_t>(i) * from.stride + plan_.output.offset * 4, size * sizeof(float));
  }
}

void RowRunner::run_source(std::span<const RunRow> rows, std::span<const RunSequence> sources,
                           std::span<const std::span<const float>> inputs, size_t first_row) {
  reserve(Op::Section::kSource, rows, sources);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueIndex v = plan_.source_inputs[i].value;
    const CpuValues::View& to = view(v);
    const auto size = static_cast<size_t>(plan_.value(v).size);
    for (size_t row = 0; row < rows.size(); ++row) {
      std::memcpy(to.base + static_cast<int64_t>(row) * to.stride, inputs[i].data() + (first_row + row) * size, size * sizeof(float));
    }
  }
  run_ops(cpu_plan_.section(Op::Section::kSource).ops, rows, sources);
}

}  // namespace kvik::native
