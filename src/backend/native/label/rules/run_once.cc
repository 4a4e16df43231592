#include <fmt/format.h>

#include "backend/native/label/rules.h"
#include "onnx/eval/kernel.h"

namespace kvik::native {
namespace {

constexpr int64_t kLargestTried = int64_t{1} << 24;  // elements of all operands: it is run once on zeros

Expected<Tensor> stand_in(NodeLabeler& op, size_t i) {
  if (!op.has(i)) return Tensor();
  if (!op.is_row(i)) {
    KVIK_TRY(const std::vector<Tensor> tensors, op.at_sizes(i));
    return tensors.front();
  }
  const Axes& axes = op.label(i).axes;
  for (const Axis& axis : axes) {
    if (has_symbol(axis)) return op.refuse("no rule lets it work on axes of rows: " + to_string(axes));
  }
  return Tensor(op.label(i).dtype, row_dims(axes));
}

}  // namespace

Expected<> label_by_running(NodeLabeler& op) {
  if (!op.one_token()) return op.refuse("it is not known to work on each row by itself");
  std::vector<Tensor> inputs;
  int64_t total = 0;
  for (size_t i = 0; i < op.n_inputs(); ++i) {
    KVIK_TRY(Tensor input, stand_in(op, i));
    inputs.push_back(std::move(input));
    total += inputs.back().defined() ? inputs.back().size() : 0;
    if (total > kLargestTried) return op.refuse("is too large to be evaluated");
  }
  WorkBudget budget;
  const Evaluated<std::vector<Tensor>> run =
      evaluate([&] { return onnx::run_kernel(op.node(), inputs, {}, onnx::Work(budget.steps_left)); });
  if (!run) return op.refuse(run.failure);
  const std::vector<Tensor>& outputs = *run;
  for (size_t i = 0; i < op.node().outputs.size(); ++i) {
    if (op.node().outputs[i] == onnx::kNoValue) continue;
    if (i >= outputs.size() || !outputs[i].defined()) return op.refuse(fmt::format("output {} is computed by no kernel", i));
    Axes axes;
    for (const int64_t size : outputs[i].dims()) {
      if (size < 1) return op.refuse("gives nothing");
      axes.push_back(canonical({factor(size)}));
    }
    KVIK_CHECK(op.set_output(i, std::move(axes), outputs[i].dtype()));
  }
  op.emit();
  return {};
}

}  // namespace kvik::native
