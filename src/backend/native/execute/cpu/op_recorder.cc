#include "backend/native/execute/cpu/op_recorder.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvik::native {
namespace {

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

OpRecorder::OpRecorder(Recorder& recorder, const CpuPlan& plan)
    : recorder_(recorder), plan_(plan), parts_kind_(recorder.kind("part of the rows")) {
  for (const Op& op : plan.plan->ops) {
    std::string name(op.kind());
    if (const auto* matmul = op.as<Matmul>()) {
      const cpu::WeightLayout& layout = plan.weights[static_cast<size_t>(matmul->weights.front())].packed.layout;
      name += fmt::format(" {} {}x{}", format_name(layout.format), layout.k, layout.n);
    }
    kinds_.push_back(recorder.kind(name));
  }
}

Recorder::Work OpRecorder::work_of(OpIndex index, std::span<const RunRow> rows, std::span<const RunSequence> sequences) const {
  const Op& op = plan_.plan->ops[static_cast<size_t>(index)];
  Recorder::Work work;
  if (const auto* matmul = op.as<Matmul>()) {
    for (const int weight : matmul->weights) {
      const cpu::WeightLayout& layout = plan_.weights[static_cast<size_t>(weight)].packed.layout;
      work.bytes += layout.size_bytes;
      work.multiplications += static_cast<int64_t>(rows.size()) * layout.k * layout.n;
    }
  }
  if (const auto* args = op.as<AttendOp>()) {
    const auto attend_index = static_cast<size_t>(args->attend);
    const AttentionSpec& attend = plan_.plan->attends[attend_index];
    const cpu::Attention& attention = plan_.layouts.of_attend[attend_index];
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

}  // namespace kvik::native
