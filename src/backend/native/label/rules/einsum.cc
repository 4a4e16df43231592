#include "backend/native/specialize/einsum.h"

#include <fmt/format.h>

#include "backend/native/label/rules.h"

namespace kvik::native {
namespace {

// What is summed over must be features; every other axis goes where its letter goes.
Expected<> einsum(NodeLabeler& op) {
  std::vector<Axes> axes;
  std::vector<size_t> ranks;
  for (size_t i = 0; i < op.n_inputs(); ++i) {
    KVIK_TRY(Axes fitted, op.fitted(i, {}));
    axes.push_back(std::move(fitted));
    ranks.push_back(axes.back().size());
  }
  KVIK_TRY(const Einsum equation, Einsum::parse(op.node(), ranks));
  std::map<char, Axis> axis_of;
  for (size_t i = 0; i < axes.size(); ++i) {
    for (size_t a = 0; a < axes[i].size(); ++a) {
      const auto [known, is_new] = axis_of.try_emplace(equation.operands[i][a], axes[i][a]);
      if (!is_new && known->second != axes[i][a])
        return op.refuse(fmt::format("axis '{}' is {} and {}", equation.operands[i][a], to_string(known->second), to_string(axes[i][a])));
    }
  }
  Axes result;
  for (const char letter : equation.result) result.push_back(axis_of.at(letter));
  for (const auto& [letter, axis] : axis_of) {
    const bool summed = equation.result.find(letter) == std::string::npos;
    if (summed && has_symbol(axis)) return op.refuse(fmt::format("sums over rows: axis '{}' is {}", letter, to_string(axis)));
  }
  if (op.any_score()) return op.refuse("multiplies attention scores over an axis of features");
  return op.emit_with(std::move(result), op.dtype(0));
}

}  // namespace

void add_einsum_rules(RuleTable& table) { table.add("Einsum", einsum); }

}  // namespace kvik::native
