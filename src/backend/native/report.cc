#include "backend/native/report.h"

#include "backend/native/execute/cpu/attend_layouts.h"
#include "backend/native/execute/device/device_plan.h"

namespace kvik::native {

PlanReport report(const Plan& plan, WeightChoice choice, cpu::KvFormat kv) {
  PlanReport r;
  const std::vector<ChosenWeight> chosen = choose_weights(plan, choice);
  for (const Op& op : plan.ops) {
    ++r.operations[std::string(op.kind())];
    if (op.as<ReferenceOp>() != nullptr) ++r.unfused[std::string(plan.node(op).op)];
    if (const auto* matmul = op.as<Matmul>(); matmul != nullptr && op.section != Op::Section::kSource) {
      for (const int w : matmul->weights) r.bytes_per_token += chosen[static_cast<size_t>(w)].size_bytes;
    }
  }
  for (const auto& [name, count] : plan.fused) {
    if (count > 0) r.fused[name] = count;
  }
  for (const AttentionSpec& attend : plan.attends) ++r.attention[(attend.from_source ? "cross, " : "") + attend.words];
  for (const ChosenWeight& weight : chosen) r.weights[std::string(format_name(weight))] += weight.size_bytes;
  r.kv_bytes_per_token = cache_layout(plan, kv).page_bytes / cpu::kPagePositions;
  r.notes = plan.notes;
  return r;
}

std::map<std::string, int> host_steps(const Plan& plan, cpu::KvFormat kv) {
  std::map<std::string, int> steps;
  for (const Op& op : plan.ops) {
    if (!has_device_kernel(plan, op, kv)) ++steps[op.as<ReferenceOp>() != nullptr ? std::string(plan.node(op).op) : std::string(op.kind())];
  }
  return steps;
}

}  // namespace kvik::native
