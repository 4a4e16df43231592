#include <algorithm>
#include <fmt/format.h>

#include "backend/native/label/rules.h"

// Operators on quantized weights and activations.
namespace kvik::native {
namespace {

Axes with_last(Axes axes, int64_t size) {
  axes.back() = {factor(size)};
  return axes;
}

// In the graph, the whole tensor has one scale. Here each row has its own; otherwise it would depend on its neighbors.
Expected<> dynamic_quantize(NodeLabeler& op) {
  KVIK_CHECK(op.set_output(1, Axes(), DType::kF32));
  KVIK_CHECK(op.set_output(2, Axes(), DType::kU8));
  op.labeler().note_once("activations are quantized by rows, each with its own scale");
  return op.emit_with(op.axes(0), DType::kU8);
}

// Scale and zero point are single numbers, or run along one axis of features.
Expected<> require_scale(NodeLabeler& op, size_t input) {
  if (!op.has(input)) return {};
  if (op.is_row(input)) {
    if (!op.label(input).axes.empty()) return op.refuse(fmt::format("input {} is a scale that differs among rows", input));
    return {};
  }
  KVIK_TRY(const Axes scale, op.fitted(input, {}));
  if (broadcast(std::vector<Axes>{scale}) == Axes(scale.size())) return {};  // one number
  KVIK_TRY(const Axes axes, op.axes(0));
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("axis", 1), axes.size()));
  if (scale.size() != 1 || scale[0] != axes[at]) return op.refuse(fmt::format("input {} does not fit the axis it scales", input));
  return {};
}

Expected<> quantize(NodeLabeler& op) {
  KVIK_CHECK(require_scale(op, 1));
  KVIK_CHECK(require_scale(op, 2));
  const DType named = static_cast<DType>(op.node().int_or("output_dtype", 0));
  if (named != DType::kUndefined) return op.emit_with(op.axes(0), named);
  return op.emit_with(op.axes(0), op.has(2) ? op.dtype(2) : DType::kU8);
}

Expected<> dequantize(NodeLabeler& op) {
  KVIK_CHECK(require_scale(op, 1));
  KVIK_CHECK(require_scale(op, 2));
  return op.emit_with(op.axes(0), DType::kF32);
}

// Rows at input 0 by a weight [k, n] at input `weight`; everything else is constant, or a single number of the row.
Expected<> by_quantized_weight(NodeLabeler& op, size_t weight, const Expected<DType>& dtype) {
  KVIK_TRY(const Axes rows, op.axes(0));
  if (op.is_row(weight)) return op.refuse("multiplies rows by rows as integers");
  KVIK_TRY(const Axes matrix, op.fitted(weight, {}));
  if (rows.empty() || matrix.size() != 2 || has_symbol(matrix[0]) || has_symbol(matrix[1]))
    return op.refuse("does not multiply by a matrix");
  if (rows.back() != matrix[0]) return op.refuse(fmt::format("inner axes differ: {} by {}", to_string(rows), to_string(matrix)));
  for (size_t i = 1; i < op.n_inputs(); ++i) {
    if (op.is_row(i) && !op.label(i).axes.empty()) return op.refuse(fmt::format("input {} differs among rows", i));
  }
  return op.emit_with(with_last(rows, std::max<int64_t>(1, row_size(matrix[1]))), dtype);
}

Expected<> matmul_integer_to_float(NodeLabeler& op) { return by_quantized_weight(op, 1, DType::kF32); }

Expected<> dynamic_quantize_matmul(NodeLabeler& op) {
  op.labeler().note_once("activations are quantized by rows, each with its own scale");
  return by_quantized_weight(op, 1, DType::kF32);
}

Expected<> qlinear_matmul(NodeLabeler& op) { return by_quantized_weight(op, 3, op.dtype(7)); }

Expected<> matmul_n_bits(NodeLabeler& op) {
  KVIK_TRY(const Axes rows, op.axes(0));
  const int64_t k = op.node().int_or("K", 0), n = op.node().int_or("N", 0);
  if (n < 1 || k < 1 || rows.empty() || rows.back() != canonical({factor(k)}))
    return op.refuse(fmt::format("multiplies {} by a matrix [{}, {}]", to_string(rows), k, n));
  return op.emit_with(with_last(rows, n), DType::kF32);
}

// Packed codes hold several elements a byte along the last axis.
Expected<> gather_block_quantized(NodeLabeler& op) {
  if (op.is_row(0) || op.is_row(2)) return op.refuse("looks up a table of rows");
  Dims table = op.label(0).dims;
  if (table.empty()) return op.refuse("looks up no table");
  const int64_t bits = op.node().int_or("bits", 4);
  KVIK_TRY(const DType codes, op.dtype(0));
  if (codes == DType::kU8 && bits > 0 && bits < 8) table.back() *= 8 / bits;
  KVIK_TRY(const size_t at, op.axis_at(op.node().int_or("gather_axis", 0), table.size()));
  KVIK_TRY(const Axes index, op.axes(1));
  Axes result;
  for (size_t i = 0; i < table.size(); ++i) {
    if (i != at) {
      result.push_back(canonical({factor(table[i])}));
    } else {
      result.insert(result.end(), index.begin(), index.end());
    }
  }
  return op.emit_with(std::move(result), DType::kF32);
}

}  // namespace

void add_quantized_rules(RuleTable& table) {
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
