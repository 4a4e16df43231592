#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>

#include "backend/native/execute/execute.h"
#include "backend/native/execute/frame.h"
#include "kernels/cpu/rows.h"
#include "kvik/error.h"

namespace kvik::native {
namespace {

// The output of the plan, where it is written by the tail and read by nobody else: then it goes straight to the caller.
ValueIndex external_output(const Plan& plan) {
  if (!plan.is_whole(plan.output) || !plan.value(plan.output.index).consumers.empty()) return kNoIndex;
  const Op* op = plan.producer(plan.output);
  return op != nullptr && op->section == Op::Section::kTail ? plan.output.index : kNoIndex;
}

const char* format_name(cpu::WeightFormat format) {
  constexpr const char* kNames[] = {"f32", "f16", "bf16", "q8", "q4", "int8"};
  return kNames[static_cast<size_t>(format)];
}

void grow(AlignedBuffer& buffer, int64_t bytes) {
  if (static_cast<int64_t>(buffer.size_bytes()) < bytes) buffer = AlignedBuffer(static_cast<size_t>(bytes + bytes / 4));
}

}  // namespace

AttendLayouts cache_layout(const Plan& plan, cpu::KvFormat format) {
  AttendLayouts layouts;
  for (const AttentionSpec& attend : plan.attends) {
    cpu::Attention a{.layout = cpu::kv_layout(format, attend.n_kv_heads, attend.key_dim, attend.value_dim)};
    a.rule.scale = attend.scale;
    a.rule.score_roundings = attend.score_roundings.data();
    a.rule.n_score_roundings = static_cast<int32_t>(attend.score_roundings.size());
    a.rule.weight_roundings = attend.weight_roundings.data();
    a.rule.n_weight_roundings = static_cast<int32_t>(attend.weight_roundings.size());
    a.rule.soft_cap = attend.soft_cap;
    if (!attend.slopes.empty()) a.rule.slopes = attend.slopes.data();
    if (!attend.distance_bias.empty()) {
      a.rule.distance_bias = attend.distance_bias.data();
      a.rule.n_distances = static_cast<int64_t>(attend.distance_bias.size()) / attend.n_heads;
      a.rule.first_distance = attend.first_distance;
    }
    if (!attend.sinks.empty()) a.rule.sinks = attend.sinks.data();
    a.n_heads = static_cast<int32_t>(attend.n_heads);
    if (!attend.kv_head_of.empty()) a.kv_head_of = attend.kv_head_of.data();
    int64_t& end = attend.from_source ? layouts.source_page_bytes : layouts.page_bytes;
    a.page_offset = end;
    end += a.layout.page_bytes;
    layouts.of_attend.push_back(a);
  }
  return layouts;
}

Runner::Runner(Parts parts)
    : parts_(std::move(parts)),
      layouts_(cache_layout(*parts_.plan, parts_.kv_format)),
      tables_{PositionTables(parts_.plan->tables), PositionTables(parts_.plan->tables_beyond)},
      views_(parts_.plan->values.size()) {
  external_ = external_output(plan());
  placement_ = place(plan(), external_);
  for (size_t i = 0; i < plan().ops.size(); ++i)
    sections_[static_cast<size_t>(plan().ops[i].section)].ops.push_back(static_cast<OpIndex>(i));
  sections_[0].row_bytes = placement_.source_bytes;
  sections_[1].row_bytes = placement_.body_bytes;
  sections_[2].row_bytes = placement_.tail_bytes;
  const auto add = [&](size_t section, ValueIndex v) {
    if (v != kNoIndex && v != external_) sections_[section].values.push_back(v);
  };
  for (const Plan::SourceValue& source : plan().source_inputs) add(0, source.value);
  add(1, plan().token);
  add(1, plan().embedding);
  for (const Op& op : plan().ops) {
    std::vector<int>& tables = sections_[static_cast<size_t>(op.section)].tables;
    for (const Input& input : op.in) {
      if (input.is_table() && std::ranges::find(tables, input.index) == tables.end()) tables.push_back(input.index);
    }
    for (const ValueIndex v : op.out) add(static_cast<size_t>(op.section), v);
    const auto* matmul = op.as<Matmul>();
    if (matmul == nullptr) continue;
    const LoadedWeight& weight = parts_.weights[static_cast<size_t>(matmul->weights.front())];
    const int64_t k = plan().weights[static_cast<size_t>(matmul->weights.front())].k;
    const QuantisedShape shape{weight.activations, std::max<int64_t>(1, op.in[0].size / k), k};
    if (shape.activations != Activations::kFloats && std::find(quantised_.begin(), quantised_.end(), shape) == quantised_.end())
      quantised_.push_back(shape);
  }
  if (parts_.recorder != nullptr) name_kinds();
}

void Runner::name_kinds() {
  for (const Op& op : plan().ops) {
    std::string name(op.kind());
    if (const auto* matmul = op.as<Matmul>()) {
      const cpu::WeightLayout& layout = parts_.weights[static_cast<size_t>(matmul->weights.front())].packed.view.layout;
      name += fmt::format(" {} {}x{}", format_name(layout.format), layout.k, layout.n);
    }
    kinds_.push_back(parts_.recorder->kind(name));
  }
}

// Of products and attention; the rest reads little.
Recorder::Work Runner::work_of(const Op& op, std::span<const RunRow> rows, std::span<const RunSequence> sequences) const {
  Recorder::Work work;
  if (const auto* matmul = op.as<Matmul>()) {
    for (const int weight : matmul->weights) {
      const cpu::WeightLayout& layout = parts_.weights[static_cast<size_t>(weight)].packed.view.layout;
      work.bytes += layout.size_bytes;
      work.multiplications += static_cast<int64_t>(rows.size()) * layout.k * layout.n;
    }
  }
  if (const auto* args = op.as<AttendOp>()) {
    const auto index = static_cast<size_t>(args->attend);
    const AttentionSpec& attend = plan().attends[index];
    const cpu::Attention& attention = layouts_.of_attend[index];
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

namespace {

// The positions that rows have, of sequences up to Plan::switch_after and of longer ones.
std::array<int64_t, 2> ends_of(std::span<const RunRow> rows) {
  std::array<int64_t, 2> ends = {0, 0};
  for (const RunRow& row : rows) ends[row.beyond ? 1 : 0] = std::max(ends[row.beyond ? 1 : 0], row.position + 1);
  return ends;
}

}  // namespace

void Runner::extend_tables(Op::Section section, std::span<const RunRow> rows) {
  const std::array<int64_t, 2> ends = ends_of(rows);
  for (size_t i = 0; i < 2; ++i) {
    if (ends[i] > 0) tables_[i].extend(sections_[static_cast<size_t>(section)].tables, ends[i]);
  }
}

void Runner::require_tables(Op::Section section, std::span<const RunRow> rows) const {
  const std::array<int64_t, 2> ends = ends_of(rows);
  for (size_t i = 0; i < 2; ++i) {
    if (ends[i] > 0 && !tables_[i].covers(sections_[static_cast<size_t>(section)].tables, ends[i]))
      throw Error(Code::kInternal, "a run was not prepared: position tables end before its rows");
  }
}

// A source may well be longer than what the tables of the target's positions hold, so each section has its own.
void Runner::prepare(std::span<const RunRow> rows) {
  extend_tables(Op::Section::kBody, rows);
  extend_tables(Op::Section::kTail, rows);
}

void Runner::prepare_source(std::span<const RunRow> rows) { extend_tables(Op::Section::kSource, rows); }

void Runner::reserve(Op::Section section, std::span<const RunRow> rows, std::span<const RunSequence> sequences) {
  const auto n_rows = static_cast<int64_t>(rows.size());
  SectionMemory& memory = sections_[static_cast<size_t>(section)];
  int64_t most_keys = 0;
  for (const RunRow& row : rows) {
    const RunSequence& sequence = sequences[static_cast<size_t>(row.sequence)];
    most_keys = std::max({most_keys, row.position + 1, sequence.n_keys, sequence.n_source});
  }
  int64_t scratch = 0;
  for (const QuantisedShape& shape : quantised_) {
    const int64_t n = n_rows * shape.n_rows;
    const size_t bytes = shape.activations == Activations::kBlocks ? cpu::quantised_bytes(n, shape.k) : cpu::byte_rows_bytes(n, shape.k);
    scratch = std::max(scratch, static_cast<int64_t>(bytes));
  }
  for (const cpu::Attention& attention : layouts_.of_attend)
    scratch = std::max(scratch, 4 * cpu::attend_scratch_floats(attention, n_rows, most_keys));
  grow(scratch_, scratch);
  const std::byte* before = memory.arena.data();
  grow(memory.arena, memory.row_bytes * n_rows);
  if (memory.n_rows == n_rows && memory.arena.data() == before) return;
  for (const ValueIndex v : memory.values) {
    const ValuePlace& slot = placement_.of_value[static_cast<size_t>(v)];
    views_[static_cast<size_t>(v)] = {memory.arena.data() + slot.offset * n_rows, slot.stride};
  }
  memory.n_rows = n_rows;
}

void Runner::run_section(Op::Section section, std::span<const RunRow> rows, std::span<const RunSequence> sequences) {
  Frame frame(*this, section, rows, sequences);
  const std::vector<OpIndex>& ops = sections_[static_cast<size_t>(section)].ops;
  if (parts_.recorder == nullptr) {
    for (const OpIndex op : ops) frame.run(op);
    return;
  }
  for (const OpIndex op : ops) {
    const auto i = static_cast<size_t>(op);
    const RecordedScope recorded(parts_.recorder, kinds_[i], work_of(plan().ops[i], rows, sequences));
    frame.run(op);
  }
}

void Runner::run(const RunCall& call) {
  require_tables(Op::Section::kBody, call.rows);
  require_tables(Op::Section::kTail, call.rows);
  const bool in_order = plan().one_token || !plan().registers.empty();
  const auto same_sequence = [](const RunRow& a, const RunRow& b) { return a.sequence == b.sequence; };
  if (in_order && std::ranges::adjacent_find(call.rows, same_sequence) != call.rows.end()) return run_waves(call);
  run_rows(call);
}

void Runner::run_rows(const RunCall& call) {
  reserve(Op::Section::kBody, call.rows, call.sequences);
  branches_ = call.branches;
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

// The first rows of all sequences, then the second ones, …: what a row leaves behind is there for the next one.
void Runner::run_waves(const RunCall& call) {
  std::vector<size_t> next(call.sequences.size(), call.rows.size());
  for (size_t i = call.rows.size(); i-- > 0;) next[static_cast<size_t>(call.rows[i].sequence)] = i;
  const auto size = static_cast<size_t>(output_size());
  const size_t embedding = call.embeddings.size() / std::max<size_t>(1, call.rows.size());
  for (;;) {
    wave_.rows.clear(), wave_.tokens.clear(), wave_.wanted.clear(), wave_.output_rows.clear(), wave_.embeddings.clear();
    for (size_t s = 0; s < next.size(); ++s) {
      const size_t i = next[s];
      if (i >= call.rows.size() || call.rows[i].sequence != static_cast<int32_t>(s)) continue;
      next[s] = i + 1;
      const auto wanted = std::find(call.wanted.begin(), call.wanted.end(), static_cast<int32_t>(i));
      if (wanted != call.wanted.end()) {
        wave_.wanted.push_back(static_cast<int32_t>(wave_.rows.size()));
        wave_.output_rows.push_back(static_cast<int32_t>(wanted - call.wanted.begin()));
      }
      wave_.rows.push_back(call.rows[i]);
      if (!call.tokens.empty()) wave_.tokens.push_back(call.tokens[i]);
      const auto from = call.embeddings.begin() + static_cast<ptrdiff_t>(i * embedding);
      wave_.embeddings.insert(wave_.embeddings.end(), from, from + static_cast<ptrdiff_t>(embedding));
    }
    if (wave_.rows.empty()) return;
    wave_.output.resize(wave_.wanted.size() * size);
    run_rows({wave_.rows, call.sequences, wave_.tokens, wave_.embeddings, wave_.wanted, wave_.output.data()});
    for (size_t i = 0; i < wave_.output_rows.size(); ++i)
      std::copy_n(wave_.output.data() + i * size, size, call.output + static_cast<size_t>(wave_.output_rows[i]) * size);
  }
}

void Runner::give_inputs(const RunCall& call) {
  for (size_t row = 0; row < call.rows.size(); ++row) {
    if (plan().token != kNoIndex) {
      const View& view = views_[static_cast<size_t>(plan().token)];
      std::memcpy(view.base + static_cast<int64_t>(row) * view.stride, &call.tokens[row], sizeof(int64_t));
    }
    if (plan().embedding != kNoIndex) {
      const View& view = views_[static_cast<size_t>(plan().embedding)];
      const auto size = static_cast<size_t>(plan().value(plan().embedding).size);
      std::memcpy(view.base + static_cast<int64_t>(row) * view.stride, call.embeddings.data() + row * size, size * sizeof(float));
    }
  }
}

// The tail sees only the rows that are wanted. Where these are all, it reads what the body left where it lies.
void Runner::enter_tail(const RunCall& call) {
  if (external_ != kNoIndex) views_[static_cast<size_t>(external_)] = {reinterpret_cast<std::byte*>(call.output), output_size() * 4};
  if (call.wanted.size() == call.rows.size()) return;
  const auto n = static_cast<int64_t>(call.wanted.size());
  for (const ValueIndex v : placement_.crossing) {
    View& view = views_[static_cast<size_t>(v)];
    const ValuePlace& slot = placement_.gathered[static_cast<size_t>(v)];
    std::byte* to = sections_[2].arena.data() + slot.offset * n;
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(to + i * slot.stride, view.base + call.wanted[static_cast<size_t>(i)] * view.stride, static_cast<size_t>(slot.stride));
    view = {to, slot.stride};
  }
  sections_[1].n_rows = -1;
}

void Runner::copy_output(const RunCall& call) {
  if (external_ != kNoIndex) return;
  const View& view = views_[static_cast<size_t>(plan().output.index)];
  const auto size = static_cast<size_t>(output_size());
  for (size_t i = 0; i < call.wanted.size(); ++i) {
    std::memcpy(call.output + i * size, view.base + static_cast<int64_t>(i) * view.stride + plan().output.offset * 4, size * sizeof(float));
  }
}

void Runner::run_source(std::span<const RunRow> rows, std::span<const RunSequence> sources,
                        std::span<const std::span<const float>> inputs) {
  require_tables(Op::Section::kSource, rows);
  reserve(Op::Section::kSource, rows, sources);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueIndex v = plan().source_inputs[i].value;
    const View& view = views_[static_cast<size_t>(v)];
    const auto size = static_cast<size_t>(plan().value(v).size);
    for (size_t row = 0; row < rows.size(); ++row)
      std::memcpy(view.base + static_cast<int64_t>(row) * view.stride, inputs[i].data() + row * size, size * sizeof(float));
  }
  run_section(Op::Section::kSource, rows, sources);
}

}  // namespace kvik::native
