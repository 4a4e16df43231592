#include "backend/native/fuse/compact.h"

namespace kvik::native {
namespace {

constexpr int kUnused = -1;

// Renumbers the used entries and moves them.
template <class T>
std::vector<int> close_ranks(std::vector<T>& things, const std::vector<bool>& used) {
  std::vector<int> numbers(things.size(), kUnused);
  size_t n = 0;
  for (size_t i = 0; i < things.size(); ++i) {
    if (!used[i]) continue;
    numbers[i] = static_cast<int>(n);
    if (n != i) things[n] = std::move(things[i]);
    ++n;
  }
  things.resize(n);
  return numbers;
}

template <class Fn>
void for_each_weight(Plan& plan, Fn fn) {
  for (Op& op : plan.ops) {
    if (auto* embed = op.as<Embed>()) fn(embed->weight);
    if (auto* matmul = op.as<Matmul>()) {
      for (int& weight : matmul->weights) fn(weight);
    }
  }
}

template <class Fn>
void for_each_input(Plan& plan, Input::Kind kind, Fn fn) {
  for (Op& op : plan.ops) {
    for (Input& input : op.in) {
      if (input.kind == kind) fn(input.index);
    }
  }
  if (plan.output.kind == kind) fn(plan.output.index);
}

template <class T>
void compact_inputs(Plan& plan, Input::Kind kind, std::vector<T>& things) {
  std::vector<bool> used(things.size());
  for_each_input(plan, kind, [&](int32_t& index) { used[static_cast<size_t>(index)] = true; });
  const std::vector<int> numbers = close_ranks(things, used);
  for_each_input(plan, kind, [&](int32_t& index) { index = numbers[static_cast<size_t>(index)]; });
}

}  // namespace

void compact(Plan& plan) {
  std::vector<bool> used(plan.weights.size());
  for_each_weight(plan, [&](int& weight) { used[static_cast<size_t>(weight)] = true; });
  const std::vector<int> numbers = close_ranks(plan.weights, used);
  for_each_weight(plan, [&](int& weight) { weight = numbers[static_cast<size_t>(weight)]; });
  compact_inputs(plan, Input::Kind::kTable, plan.tables);
  compact_inputs(plan, Input::Kind::kConstant, plan.constants);
}

}  // namespace kvik::native
