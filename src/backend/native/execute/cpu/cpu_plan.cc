#include "backend/native/execute/cpu/cpu_plan.h"

namespace kvik::native {
namespace {

// The output of the plan, where it is written by the tail and read by nobody else: then it goes straight to the caller.
ValueIndex external_output(const Plan& plan) {
  if (!plan.is_whole(plan.output) || !plan.value(plan.output.index).consumers.empty()) return kNoIndex;
  const Op* op = plan.producer(plan.output);
  return op != nullptr && op->section == Op::Section::kTail ? plan.output.index : kNoIndex;
}

}  // namespace

CpuPlan::CpuPlan(std::shared_ptr<const Plan> from, std::vector<LoadedWeight> loaded, const cpu::CpuKernels& cpu_kernels,
                 cpu::KvFormat kv_format)
    : plan(std::move(from)),
      weights(std::move(loaded)),
      kernels(cpu_kernels),
      layouts(cache_layout(*plan, kv_format)),
      quantized(quantized_shapes(*plan, weights)),
      external(external_output(*plan)),
      placement(place(*plan, external)) {
  sections[0].row_bytes = placement.source_bytes;
  sections[1].row_bytes = placement.body_bytes;
  sections[2].row_bytes = placement.tail_bytes;
  const auto add = [&](Section& section, ValueIndex v) {
    if (v != kNoIndex && v != external) section.values.push_back(v);
  };
  for (const Plan::SourceValue& source : plan->source_inputs) add(sections[0], source.value);
  add(sections[1], plan->token);
  add(sections[1], plan->embedding);
  for (size_t i = 0; i < plan->ops.size(); ++i) {
    const Op& op = plan->ops[i];
    Section& section = sections[static_cast<size_t>(op.section)];
    section.ops.push_back(static_cast<OpIndex>(i));
    for (const ValueIndex v : op.out) add(section, v);
    if (const auto* matmul = op.as<Matmul>()) {
      for (const int weight : matmul->weights) section.weight_bytes += weights[static_cast<size_t>(weight)].packed.layout.size_bytes;
    }
  }
}

}  // namespace kvik::native
