#include <fmt/format.h>

#include "backend/native/label/rules.h"
#include "onnx/eval/kernel.h"

namespace kvik::native {
namespace {

constexpr int64_t kLargestTried = int64_t{1} << 24;  // elements of all operands: it is run once on zeros

Tensor stand_in(NodeLabeler& op, size_t i) {
  if (!op.has(i)) return {};
  if (!op.is_row(i)) return op.labeler().at_sizes(op.node().inputs[i]).front();
  for (const Axis& axis : op.axes(i)) {
    if (has_symbol(axis)) op.refuse("no rule lets it work on axes of rows: " + to_string(op.axes(i)));
  }
  return Tensor(op.label(i).dtype, row_dims(op.axes(i)));
}

}  // namespace

void label_by_running(NodeLabeler& op) {
  if (!op.one_token()) op.refuse("no rule says that it works on each row by itself");
  std::vector<Tensor> inputs;
  int64_t total = 0;
  for (size_t i = 0; i < op.n_inputs(); ++i) {
    inputs.push_back(stand_in(op, i));
    total += inputs.back().defined() ? inputs.back().size() : 0;
    if (total > kLargestTried) op.refuse("is too large to be tried");
  }
  WorkBudget budget;
  const std::vector<Tensor> outputs = onnx::run_kernel(op.node(), inputs, {}, onnx::Work(budget.steps_left));
  for (size_t i = 0; i < op.node().outputs.size(); ++i) {
    if (op.node().outputs[i] == onnx::kNoValue) continue;
    if (i >= outputs.size() || !outputs[i].defined()) op.refuse(fmt::format("output {} is computed by no kernel", i));
    Axes axes;
    for (const int64_t size : outputs[i].dims()) {
      if (size < 1) op.refuse("gives nothing");
      axes.push_back(canonical({factor(size)}));
    }
    op.set_output(i, std::move(axes), outputs[i].dtype());
  }
  op.emit();
}

}  // namespace kvik::native
