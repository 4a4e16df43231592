#include "backend/native/execute/cpu/cpu_runner.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "backend/native/execute/cpu/frame.h"

namespace kvik::native {
namespace {

constexpr int64_t kValueBytes = int64_t{32} << 20;  // of the values of one call

// The output of the plan, where it is written by the tail and read by nobody else: then it goes straight to the caller.
ValueIndex external_output(const Plan& plan) {
  if (!plan.is_whole(plan.output) || !plan.value(plan.output.index).consumers.empty()) return kNoIndex;
  const Op* op = plan.producer(plan.output);
  return op != nullptr && op->section == Op::Section::kTail ? plan.output.index : kNoIndex;
}

const char* format_name(cpu::WeightFormat format) {
  switch (format) {
    case cpu::WeightFormat::kF32: return "f32";
    case cpu::WeightFormat::kF16: return "f16";
    case cpu::WeightFormat::kBF16: return "bf16";
    case cpu::WeightFormat::kBlocks8: return "q8";
    case cpu::WeightFormat::kBlocks6: return "q6";
    case cpu::WeightFormat::kBlocks4: return "q4";
    case cpu::WeightFormat::kChannels8: return "int8";
  }
  return "";
}

}  // namespace

CpuRunner::CpuRunner(Parts parts)
    : plan_(std::move(parts.plan)), recorder_(parts.recorder), external_(external_output(*plan_)), tables_(*plan_) {
  values_.plan = plan_.get();
  values_.kernels = parts.kernels;
  values_.pool = parts.pool;
  values_.weights = std::move(parts.weights);
  values_.layouts = cache_layout(*plan_, parts.kv_format);
  values_.tables = &tables_;
  values_.views.resize(plan_->values.size());
  values_.quantized = quantized_shapes(*plan_, values_.weights);
  cache_bytes_.page = static_cast<size_t>(std::max<int64_t>(64, values_.layouts.page_bytes));
  cache_bytes_.source_page = static_cast<size_t>(std::max<int64_t>(64, values_.layouts.source_page_bytes));
  placement_ = place(*plan_, external_);
  for (size_t i = 0; i < plan_->ops.size(); ++i)
    sections_[static_cast<size_t>(plan_->ops[i].section)].ops.push_back(static_cast<OpIndex>(i));
  sections_[0].row_bytes = placement_.source_bytes;
  sections_[1].row_bytes = placement_.body_bytes;
  sections_[2].row_bytes = placement_.tail_bytes;
  const auto add = [&](size_t section, ValueIndex v) {
    if (v != kNoIndex && v != external_) sections_[section].values.push_back(v);
  };
  for (const Plan::SourceValue& source : plan_->source_inputs) add(0, source.value);
  add(1, plan_->token);
  add(1, plan_->embedding);
  for (const Op& op : plan_->ops) {
    for (const ValueIndex v : op.out) add(static_cast<size_t>(op.section), v);
  }
  if (recorder_ != nullptr) name_kinds();
}

int CpuRunner::preferred_rows() const {
  return static_cast<int>(std::clamp<int64_t>(kValueBytes / std::max<int64_t>(1, placement_.body_bytes), 16, 512));
}

void CpuRunner::clear_positions(std::byte* page, int first) const {
  for (size_t i = 0; i < plan_->attends.size(); ++i) {
    const cpu::Attention& attention = values_.layouts.of_attend[i];
    if (!plan_->attends[i].from_source) cpu::clear_positions(attention.layout, page + attention.page_offset, first);
  }
}

void CpuRunner::name_kinds() {
  for (const Op& op : plan_->ops) {
    std::string name(op.kind());
    if (const auto* matmul = op.as<Matmul>()) {
      const cpu::WeightLayout& layout = values_.weights[static_cast<size_t>(matmul->weights.front())].packed.layout;
      name += fmt::format(" {} {}x{}", format_name(layout.format), layout.k, layout.n);
    }
    kinds_.push_back(recorder_->kind(name));
  }
}

// Of products and attention; the rest reads little.
Recorder::Work CpuRunner::work_of(const Op& op, std::span<const RunRow> rows, std::span<const RunSequence> sequences) const {
  Recorder::Work work;
  if (const auto* matmul = op.as<Matmul>()) {
    for (const int weight : matmul->weights) {
      const cpu::WeightLayout& layout = values_.weights[static_cast<size_t>(weight)].packed.layout;
      work.bytes += layout.size_bytes;
      work.multiplications += static_cast<int64_t>(rows.size()) * layout.k * layout.n;
    }
  }
  if (const auto* args = op.as<AttendOp>()) {
    const auto index = static_cast<size_t>(args->attend);
    const AttentionSpec& attend = plan_->attends[index];
    const cpu::Attention& attention = values_.layouts.of_attend[index];
    int32_t last = -1;
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) {  // the last row of a sequence sees the most
      const RunSequence& sequence = sequences[static_cast<size_t>(row->sequence)];
      int64_t keys = attend.from_source ? sequence.n_source : attend.causal ? row->position + 1 : sequence.n_keys;
      if (attend.window > 0 && !attend.from_source) keys = std::min(keys, attend.window);
      work.multiplications += keys * attention.n_heads * (attention.layout.key_dim + attention.layout.value_dim);
      if (row->sequence != last) work.bytes += keys * attention.layout.page_bytes / cpu::kPagePositions;
      last = row->sequence;
    }
  }
  return work;
}

void CpuRunner::prepare(std::span<const RunRow> rows) {
  tables_.extend(Op::Section::kBody, rows);
  tables_.extend(Op::Section::kTail, rows);
}

void CpuRunner::prepare_source(std::span<const RunRow> rows) { tables_.extend(Op::Section::kSource, rows); }

void CpuRunner::reserve(Op::Section section, std::span<const RunRow> rows, std::span<const RunSequence> sequences) {
  const auto n_rows = static_cast<int64_t>(rows.size());
  SectionMemory& memory = sections_[static_cast<size_t>(section)];
  int64_t most_keys = 0;
  for (const RunRow& row : rows) {
    const RunSequence& sequence = sequences[static_cast<size_t>(row.sequence)];
    most_keys = std::max({most_keys, row.position + 1, sequence.n_keys, sequence.n_source});
  }
  values_.reserve_scratch(n_rows, most_keys);
  const std::byte* before = memory.arena.data();
  grow(memory.arena, memory.row_bytes * n_rows);
  if (memory.n_rows == n_rows && memory.arena.data() == before) return;
  for (const ValueIndex v : memory.values) {
    const ValuePlace& slot = placement_.of_value[static_cast<size_t>(v)];
    values_.views[static_cast<size_t>(v)] = {memory.arena.data() + slot.offset * n_rows, slot.stride};
  }
  memory.n_rows = n_rows;
}

void CpuRunner::run_section(Op::Section section, std::span<const RunRow> rows, std::span<const RunSequence> sequences) {
  Frame frame(values_, rows, sequences);
  const std::vector<OpIndex>& ops = sections_[static_cast<size_t>(section)].ops;
  if (recorder_ == nullptr) {
    for (const OpIndex op : ops) frame.run(op);
    return;
  }
  for (const OpIndex op : ops) {
    const auto i = static_cast<size_t>(op);
    const RecordedScope recorded(recorder_, kinds_[i], work_of(plan_->ops[i], rows, sequences));
    frame.run(op);
  }
}

void CpuRunner::run(const RunCall& call) {
  tables_.require(Op::Section::kBody, call.rows);
  tables_.require(Op::Section::kTail, call.rows);
  if (!runs_in_waves(*plan_, call)) return run_rows(call);
  waves_.run(call, output_size(), [this](const RunCall& wave) { run_rows(wave); });
}

void CpuRunner::run_rows(const RunCall& call) {
  reserve(Op::Section::kBody, call.rows, call.sequences);
  values_.branches = call.branches;
  give_inputs(call);
  run_section(Op::Section::kBody, call.rows, call.sequences);
  if (call.wanted.empty()) return;
  tail_rows_.clear();
  for (const int32_t row : call.wanted) tail_rows_.push_back(call.rows[static_cast<size_t>(row)]);
  reserve(Op::Section::kTail, tail_rows_, call.sequences);
  enter_tail(call);
  run_section(Op::Section::kTail, tail_rows_, call.sequences);
  copy_output(call);
}

void CpuRunner::give_inputs(const RunCall& call) {
  for (size_t row = 0; row < call.rows.size(); ++row) {
    if (plan_->token != kNoIndex) {
      const CpuValues::View& view = values_.views[static_cast<size_t>(plan_->token)];
      std::memcpy(view.base + static_cast<int64_t>(row) * view.stride, &call.tokens[row], sizeof(int64_t));
    }
    if (plan_->embedding != kNoIndex) {
      const CpuValues::View& view = values_.views[static_cast<size_t>(plan_->embedding)];
      const auto size = static_cast<size_t>(plan_->value(plan_->embedding).size);
      std::memcpy(view.base + static_cast<int64_t>(row) * view.stride, call.embeddings.data() + row * size, size * sizeof(float));
    }
  }
}

// The tail sees only the rows that are wanted. Where these are all, it reads what the body left where it lies.
void CpuRunner::enter_tail(const RunCall& call) {
  if (external_ != kNoIndex) values_.views[static_cast<size_t>(external_)] = {reinterpret_cast<std::byte*>(call.output), output_size() * 4};
  if (call.wanted.size() == call.rows.size()) return;
  const auto n = static_cast<int64_t>(call.wanted.size());
  for (const ValueIndex v : placement_.crossing) {
    CpuValues::View& view = values_.views[static_cast<size_t>(v)];
    const ValuePlace& slot = placement_.gathered[static_cast<size_t>(v)];
    std::byte* to = sections_[2].arena.data() + slot.offset * n;
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(to + i * slot.stride, view.base + call.wanted[static_cast<size_t>(i)] * view.stride, static_cast<size_t>(slot.stride));
    view = {to, slot.stride};
  }
  sections_[1].n_rows = -1;
}

void CpuRunner::copy_output(const RunCall& call) {
  if (external_ != kNoIndex) return;
  const CpuValues::View& view = values_.views[static_cast<size_t>(plan_->output.index)];
  const auto size = static_cast<size_t>(output_size());
  for (size_t i = 0; i < call.wanted.size(); ++i) {
    std::memcpy(call.output + i * size, view.base + static_cast<int64_t>(i) * view.stride + plan_->output.offset * 4, size * sizeof(float));
  }
}

void CpuRunner::run_source(std::span<const RunRow> rows, std::span<const RunSequence> sources,
                           std::span<const std::span<const float>> inputs) {
  tables_.require(Op::Section::kSource, rows);
  reserve(Op::Section::kSource, rows, sources);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueIndex v = plan_->source_inputs[i].value;
    const CpuValues::View& view = values_.views[static_cast<size_t>(v)];
    const auto size = static_cast<size_t>(plan_->value(v).size);
    for (size_t row = 0; row < rows.size(); ++row)
      std::memcpy(view.base + static_cast<int64_t>(row) * view.stride, inputs[i].data() + row * size, size * sizeof(float));
  }
  run_section(Op::Section::kSource, rows, sources);
}

}  // namespace kvik::native
