#include <algorithm>
#include <fmt/format.h>

#include "backend/native/rows/rules.h"

// Operators on quantised weights and activations.
namespace kvik::native {
namespace {

Axes with_last(Axes axes, int64_t size) {
  axes.back() = {factor(size)};
  return axes;
}

// The whole tensor has one scale in the graph. Here a row has its own, or it would depend on its neighbours.
void dynamic_quantize(Step& step) {
  step.give(0, step.axes(0), DType::kU8);
  step.give(1, {}, DType::kF32);
  step.give(2, {}, DType::kU8);
  step.emit();
  step.walk().note_once("activations are quantised by rows, each with its own scale");
}

// Scale and zero point are single numbers, or run along one axis of features.
void require_scale(Step& step, size_t input) {
  if (!step.has(input)) return;
  if (step.is_row(input)) {
    if (!step.axes(input).empty()) step.refuse(fmt::format("input {} is a scale that differs among rows", input));
    return;
  }
  const Axes scale = step.fitted(input, {});
  if (broadcast(std::vector<Axes>{scale}) == Axes(scale.size())) return;  // one number
  const Axes& axes = step.axes(0);
  const auto at = static_cast<size_t>(step.axis_at(step.node().int_or("axis", 1), axes.size()));
  if (scale.size() != 1 || scale[0] != axes[at]) step.refuse(fmt::format("input {} does not fit the axis it scales", input));
}

void quantize(Step& step) {
  require_scale(step, 1);
  require_scale(step, 2);
  const DType named = static_cast<DType>(step.node().int_or("output_dtype", 0));
  step.give(0, step.axes(0), named != DType::kUndefined ? named : step.has(2) ? step.dtype(2) : DType::kU8);
  step.emit();
}

void dequantize(Step& step) {
  require_scale(step, 1);
  require_scale(step, 2);
  step.give(0, step.axes(0), DType::kF32);
  step.emit();
}

// Rows at input 0 by a weight [k, n] at input `weight`; everything else is constant, or a single number of the row.
void by_quantised_weight(Step& step, size_t weight, DType dtype) {
  const Axes& rows = step.axes(0);
  if (step.is_row(weight)) step.refuse("multiplies rows by rows as integers");
  const Axes matrix = step.fitted(weight, {});
  if (rows.empty() || matrix.size() != 2 || has_symbol(matrix[0]) || has_symbol(matrix[1])) step.refuse("multiplies by no matrix");
  if (rows.back() != matrix[0]) step.refuse(fmt::format("inner axes differ: {} by {}", to_string(rows), to_string(matrix)));
  for (size_t i = 1; i < step.n_inputs(); ++i) {
    if (step.is_row(i) && !step.axes(i).empty()) step.refuse(fmt::format("input {} differs among rows", i));
  }
  step.give(0, with_last(rows, std::max<int64_t>(1, row_size(matrix[1]))), dtype);
  step.emit();
}

void matmul_integer_to_float(Step& step) { by_quantised_weight(step, 1, DType::kF32); }

void dynamic_quantize_matmul(Step& step) {
  by_quantised_weight(step, 1, DType::kF32);
  step.walk().note_once("activations are quantised by rows, each with its own scale");
}

void qlinear_matmul(Step& step) { by_quantised_weight(step, 3, step.dtype(7)); }

void matmul_n_bits(Step& step) {
  const Axes& rows = step.axes(0);
  const int64_t k = step.node().int_or("K", 0), n = step.node().int_or("N", 0);
  if (n < 1 || k < 1 || rows.empty() || rows.back() != canonical({factor(k)}))
    step.refuse(fmt::format("multiplies {} by a matrix [{}, {}]", to_string(rows), k, n));
  step.give(0, with_last(rows, n), DType::kF32);
  step.emit();
}

// Packed codes hold several elements a byte along the last axis.
void gather_block_quantized(Step& step) {
  if (step.is_row(0) || step.is_row(2)) step.refuse("looks up a table of rows");
  Dims table = step.label(0).dims;
  if (table.empty()) step.refuse("looks up no table");
  const int64_t bits = step.node().int_or("bits", 4);
  if (step.dtype(0) == DType::kU8 && bits > 0 && bits < 8) table.back() *= 8 / bits;
  const auto at = static_cast<size_t>(step.axis_at(step.node().int_or("gather_axis", 0), table.size()));
  Axes result;
  for (size_t i = 0; i < table.size(); ++i) {
    if (i != at) {
      result.push_back(canonical({factor(table[i])}));
    } else {
      result.insert(result.end(), step.axes(1).begin(), step.axes(1).end());
    }
  }
  step.give(0, std::move(result), DType::kF32);
  step.emit();
}

}  // namespace

void add_quantised_rules(RuleTable& table) {
  table.add("DynamicQuantizeLinear", dynamic_quantize);
  for (const std::string_view domain : {std::string_view(), kMicrosoft}) {
    table.add(domain, "QuantizeLinear", quantize);
    table.add(domain, "DequantizeLinear", dequantize);
  }
  table.add("QLinearMatMul", qlinear_matmul);
  table.add(kMicrosoft, "MatMulIntegerToFloat", matmul_integer_to_float);
  table.add(kMicrosoft, "DynamicQuantizeMatMul", dynamic_quantize_matmul);
  table.add(kMicrosoft, "MatMulNBits", matmul_n_bits);
  table.add(kMicrosoft, "MatMulBnb4", matmul_n_bits);
  table.add(kMicrosoft, "GatherBlockQuantized", gather_block_quantized);
}

}  // namespace kvik::native
