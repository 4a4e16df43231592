#include <fmt/format.h>

#include "backend/native/label/rules.h"

// A mixture of experts in one operator: rows, the router's numbers for each row, and weights.
namespace kvik::native {
namespace {

void mixture(NodeLabeler& op) {
  const Axes &rows = op.axes(0), &router = op.axes(1);
  if (rows.size() < 2 || has_symbol(rows.back())) op.refuse("has rows of no features");
  Axis flat;
  for (size_t i = 0; i + 1 < rows.size(); ++i) flat.insert(flat.end(), rows[i].begin(), rows[i].end());
  if (router.size() != 2 || router[0] != canonical(flat) || has_symbol(router[1]))
    op.refuse(fmt::format("the router has {} for rows of {}", to_string(router), to_string(rows)));
  for (size_t i = 2; i < op.n_inputs(); ++i) {
    if (op.is_row(i)) op.refuse(fmt::format("input {} depends on rows", i));
  }
  op.set_output(0, rows, op.dtype(0));
  op.emit();
}

}  // namespace

void add_expert_rules(RuleTable& table) {
  table.add(kMicrosoft, "MoE", mixture);
  table.add(kMicrosoft, "QMoE", mixture);
}

}  // namespace kvik::native
