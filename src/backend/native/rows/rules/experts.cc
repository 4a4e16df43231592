#include <fmt/format.h>

#include "backend/native/rows/rules.h"

// A mixture of experts in one operator: rows, the router's numbers for each row, and weights.
namespace kvik::native {
namespace {

void mixture(Step& step) {
  const Axes &rows = step.axes(0), &router = step.axes(1);
  if (rows.size() < 2 || has_symbol(rows.back())) step.refuse("has rows of no features");
  Axis flat;
  for (size_t i = 0; i + 1 < rows.size(); ++i) flat.insert(flat.end(), rows[i].begin(), rows[i].end());
  if (router.size() != 2 || router[0] != canonical(flat) || has_symbol(router[1]))
    step.refuse(fmt::format("the router has {} for rows of {}", to_string(router), to_string(rows)));
  for (size_t i = 2; i < step.n_inputs(); ++i) {
    if (step.is_row(i)) step.refuse(fmt::format("input {} depends on rows", i));
  }
  step.give(0, rows, step.dtype(0));
  step.emit();
}

}  // namespace

void add_expert_rules(RuleTable& table) {
  table.add(kMicrosoft, "MoE", mixture);
  table.add(kMicrosoft, "QMoE", mixture);
}

}  // namespace kvik::native
