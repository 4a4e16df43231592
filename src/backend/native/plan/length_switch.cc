#include "backend/native/plan/length_switch.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvik::native {
namespace {

bool same_value(const PlanValue& a, const PlanValue& b) { return a.dtype == b.dtype && a.size == b.size && a.selection == b.selection; }

bool same_table(const PlanTable& a, const PlanTable& b) {
  return a.dtype == b.dtype && a.size == b.size && a.elements == b.elements && a.negative == b.negative;
}

bool same_constant(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() && std::ranges::equal(a.bytes(), b.bytes());
}

bool same_op(const Op& a, const Op& b) {
  const bool by_node = a.as<ReferenceOp>() != nullptr;
  return a.args == b.args && a.in == b.in && a.out == b.out && a.section == b.section && a.selection == b.selection &&
         (!by_node || a.node == b.node);
}

}  // namespace

std::shared_ptr<const Plan> join(const Plan& upto, const Plan& beyond, int64_t after) {
  const bool same = std::ranges::equal(upto.values, beyond.values, same_value) && std::ranges::equal(upto.ops, beyond.ops, same_op) &&
                    std::ranges::equal(upto.constants, beyond.constants, same_constant) &&
                    std::ranges::equal(upto.tables, beyond.tables, same_table) && upto.weights == beyond.weights &&
                    upto.attends == beyond.attends && upto.registers == beyond.registers && upto.token == beyond.token &&
                    upto.embedding == beyond.embedding && upto.source_inputs == beyond.source_inputs && upto.output == beyond.output &&
                    upto.one_token == beyond.one_token && upto.unsupported_tokens == beyond.unsupported_tokens;
  if (!same) return nullptr;
  auto plan = std::make_shared<Plan>(upto);
  plan->tables_beyond = beyond.tables;
  plan->switch_after = after;
  plan->max_positions = beyond.max_positions;
  plan->notes.push_back(
      fmt::format("beyond {} tokens other tables hold for all positions; what was computed before is computed again", after));
  return plan;
}

}  // namespace kvik::native
