#include <fmt/format.h>

#include "backend/native/label/rules.h"

// A mixture of experts as one operator: rows, the router's scores per row, and weights.
namespace kvik::native {
namespace {

Expected<> mixture(NodeLabeler& op) {
  KVIK_TRY(const Axes rows, op.axes(0));
  KVIK_TRY(const Axes router, op.axes(1));
  if (rows.size() < 2 || has_symbol(rows.back())) return op.refuse("has rows without features");
  Axis flat;
  for (size_t i = 0; i + 1 < rows.size(); ++i) flat.insert(flat.end(), rows[i].begin(), rows[i].end());
  if (router.size() != 2 || router[0] != canonical(flat) || has_symbol(router[1]))
    return op.refuse(fmt::format("the router has {} for rows of {}", to_string(router), to_string(rows)));
  for (size_t i = 2; i < op.n_inputs(); ++i) {
    if (op.is_row(i)) return op.refuse(fmt::format("input {} depends on rows", i));
  }
  return op.emit_with(rows, op.dtype(0));
}

}  // namespace

void add_expert_rules(RuleTable& table) {
  table.add(kMicrosoft, "MoE", mixture);
  table.add(kMicrosoft, "QMoE", mixture);
}

}  // namespace kvik::native
