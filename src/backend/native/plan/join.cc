#include "backend/native/plan/join.h"

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
  return a.args == b.args && a.in == b.in && a.out == b.out && a.section == b.section && a.selection == b.selection && a.node == b.node;
}

bool same_node(const onnx::Node& a, const onnx::Node& b) {
  const auto same_attribute = [](const onnx::Attribute& x, const onnx::Attribute& y) {
    return x.name == y.name && x.data.index() == y.data.index();
  };
  return a.op == b.op && a.domain == b.domain && a.name == b.name && std::ranges::equal(a.attributes, b.attributes, same_attribute);
}

bool same_nodes(const Plan& a, const Plan& b) {
  if (a.nodes == nullptr || b.nodes == nullptr) return a.nodes == b.nodes;
  return std::ranges::equal(a.nodes->graph().nodes, b.nodes->graph().nodes, same_node);
}

// Both are of one model, whose names tell its constants apart.
bool same_tensor(const ModelTensor& a, const ModelTensor& b) {
  if (a.name != b.name || (a.expression == nullptr) != (b.expression == nullptr)) return false;
  return a.expression != nullptr || a.data.stored == b.data.stored;
}

}  // namespace

std::shared_ptr<const Plan> join(const Plan& upto, const Plan& beyond, int64_t after) {
  const bool same =
      std::ranges::equal(upto.values, beyond.values, same_value) && std::ranges::equal(upto.ops, beyond.ops, same_op) &&
      std::ranges::equal(upto.constants, beyond.constants, same_constant) && std::ranges::equal(upto.tables, beyond.tables, same_table) &&
      std::ranges::equal(upto.tensors, beyond.tensors, same_tensor) && same_nodes(upto, beyond) && upto.weights == beyond.weights &&
      upto.attends == beyond.attends && upto.registers == beyond.registers && upto.token == beyond.token &&
      upto.embedding == beyond.embedding && upto.source_inputs == beyond.source_inputs && upto.output == beyond.output &&
      upto.one_token == beyond.one_token && upto.unsupported_tokens == beyond.unsupported_tokens;
  if (!same) return nullptr;
  auto plan = std::make_shared<Plan>(upto);
  plan->tables_beyond = beyond.tables;
  plan->switch_after = after;
  plan->max_positions = beyond.max_positions;
  plan->notes.push_back(fmt::format("beyond {} tokens all positions use other tables; earlier positions are recomputed", after));
  return plan;
}

}  // namespace kvik::native
