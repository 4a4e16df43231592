#include "backend/native/execute/cpu/cpu_plan.h"

namespace kvik::native {
namespace {

// The output of the plan, where it is written by the tail and read by nobody else: then it goes straight to the caller.
ValueIndex external_output(const Plan& plan) {
  if (!plan.is_whole(plan.output) || !plan.value(plan.output.index).consumers.empty()) return kNoIndex;
  const Op* op = plan.producer(plan.output);
  return op != nullptr && op->section == Op::Section::kTail ? plan.output.index : kNoIndex;
}

// Whether `product` can read what the gate reads: nothing else reads the gate's result, and it is one quantized row for each row.
bool takes_gate(const Plan& plan, std::span<const LoadedWeight> weights, const Op& gate, const Op& product) {
  const auto* matmul = product.as<Matmul>();
  if (gate.as<GateOp>() == nullptr || matmul == nullptr || gate.section != product.section) return false;
  if (gate.selection != kNoIndex || product.selection != kNoIndex || matmul->weights.size() != 1) return false;
  const ValueIndex gated = gate.out.front();
  const auto weight = static_cast<size_t>(matmul->weights.front());
  return product.in[0].is_value() && product.in[0].index == gated && plan.is_whole(product.in[0]) &&
         plan.value(gated).consumers.size() == 1 && plan.output.index != gated && plan.weights[weight].k == product.in[0].size &&
         weights[weight].activations == Activations::kBlocks;
}

// Only neighbors: ops between them may overwrite what the gate reads.
std::vector<OpIndex> gates_of_products(const Plan& plan, std::span<const LoadedWeight> weights) {
  std::vector<OpIndex> gates(plan.ops.size(), kNoIndex);
  for (size_t i = 1; i < plan.ops.size(); ++i)
    if (takes_gate(plan, weights, plan.ops[i - 1], plan.ops[i])) gates[i] = static_cast<OpIndex>(i - 1);
  return gates;
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
      placement(place(*plan, external)),
      gate_of(gates_of_products(*plan, weights)) {
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
    const bool is_taken = i + 1 < plan->ops.size() && gate_of[i + 1] != kNoIndex;
    if (!is_taken) section.ops.push_back(static_cast<OpIndex>(i));
    for (const ValueIndex v : op.out) add(section, v);
    if (const auto* matmul = op.as<Matmul>()) {
      for (const int weight : matmul->weights) section.weight_bytes += weights[static_cast<size_t>(weight)].packed.layout.size_bytes;
    }
  }
}

}  // namespace kvik::native
