#include <fmt/format.h>

#include "backend/native/rows/rules.h"
#include "onnx/eval/kernel.h"

namespace kvik::native {
namespace {

constexpr int64_t kLargestTried = int64_t{1} << 24;  // elements of all operands: it is run once on zeros

Tensor stand_in(Step& step, size_t i) {
  if (!step.has(i)) return {};
  if (!step.is_row(i)) return step.walk().at_sizes(step.node().inputs[i]).front();
  for (const Axis& axis : step.axes(i)) {
    if (has_symbol(axis)) step.refuse("no rule lets it work on axes of rows: " + to_string(step.axes(i)));
  }
  return Tensor(step.label(i).dtype, row_dims(step.axes(i)));
}

}  // namespace

void label_by_running(Step& step) {
  if (!step.one_token()) step.refuse("no rule says that it works on each row by itself");
  std::vector<Tensor> inputs;
  int64_t total = 0;
  for (size_t i = 0; i < step.n_inputs(); ++i) {
    inputs.push_back(stand_in(step, i));
    total += inputs.back().defined() ? inputs.back().size() : 0;
    if (total > kLargestTried) step.refuse("is too large to be tried");
  }
  WorkBudget budget;
  const std::vector<Tensor> outputs = onnx::run_kernel(step.node(), inputs, {}, onnx::Work(budget.steps_left));
  for (size_t i = 0; i < step.node().outputs.size(); ++i) {
    if (step.node().outputs[i] == onnx::kNoValue) continue;
    if (i >= outputs.size() || !outputs[i].defined()) step.refuse(fmt::format("output {} is computed by no kernel", i));
    Axes axes;
    for (const int64_t size : outputs[i].dims()) {
      if (size < 1) step.refuse("gives nothing");
      axes.push_back(canonical({factor(size)}));
    }
    step.give(i, std::move(axes), outputs[i].dtype());
  }
  step.emit();
}

}  // namespace kvik::native
