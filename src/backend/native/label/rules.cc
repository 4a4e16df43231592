#include "backend/native/label/rules.h"

namespace kvik::native {

Rule RuleTable::find(std::string_view domain, std::string_view op) const {
  const auto found = rules_.find({domain, op});
  return found == rules_.end() ? nullptr : found->second;
}

const RuleTable& rules() {
  static const RuleTable table = [] {
    RuleTable all;
    add_attention_rules(all);
    add_concat_rules(all);
    add_convolution_rules(all);
    add_einsum_rules(all);
    add_elementwise_rules(all);
    add_expert_rules(all);
    add_gather_rules(all);
    add_matmul_rules(all);
    add_movement_rules(all);
    add_quantized_rules(all);
    add_reduce_rules(all);
    add_reshape_rules(all);
    add_selection_rules(all);
    add_slice_rules(all);
    return all;
  }();
  return table;
}

std::optional<Axes> broadcast(std::span<const Axes> several) {
  size_t rank = 0;
  for (const Axes& one : several) rank = std::max(rank, one.size());
  Axes result(rank);
  for (const Axes& one : several) {
    for (size_t i = 0; i < one.size(); ++i) {
      Axis& target = result[rank - one.size() + i];
      if (one[i].empty() || target == one[i]) continue;
      if (!target.empty()) return std::nullopt;
      target = one[i];
    }
  }
  return result;
}

}  // namespace kvik::native
