#include <algorithm>
#include <cmath>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/matmul_plan.h"
#include "onnx/eval/ops/numbers.h"
#include "onnx/eval/ops/quantization.h"

// Quantized matmuls. Codes minus zero points are small integers, so sums of their products are exact in double.
namespace kvik::onnx {
namespace {

// A scale or zero point: for the whole operand, per row of the left or per column of the right operand.
class PerLine {
 public:
  enum class Side { kLeft, kRight };

  PerLine(const Dims& matrix, const Tensor& parameter, Side side, std::string_view name) : side_(side) {
    rows_ = matrix.size() > 1 ? matrix[matrix.size() - 2] : 1;
    columns_ = matrix.empty() ? 1 : matrix.back();
    if (parameter.size() == 1) return;
    Dims full = matrix;
    if (full.size() > 1) full[full.size() - (side == Side::kLeft ? 1 : 2)] = 1;
    const bool one_line = parameter.rank() == 1 && parameter.dim(0) == (side == Side::kLeft ? rows_ : columns_);
    require(one_line || parameter.dims() == full, "{} has shape {}; expected one element, one per {} or {}", name,
            to_string(parameter.dims()), side == Side::kLeft ? "row" : "column", to_string(full));
    form_ = one_line ? Form::kLine : Form::kFull;
  }

  size_t at(size_t matrix, size_t row, size_t column) const {
    if (form_ == Form::kOne) return 0;
    const size_t line = side_ == Side::kLeft ? row : column;
    return form_ == Form::kLine ? line : matrix * static_cast<size_t>(side_ == Side::kLeft ? rows_ : columns_) + line;
  }

  // The value for element i of the operand.
  size_t of_element(size_t i) const {
    const auto rows = static_cast<size_t>(rows_), columns = static_cast<size_t>(columns_);
    return at(i / (rows * columns), i / columns % rows, i % columns);
  }

 private:
  enum class Form { kOne, kLine, kFull };
  Side side_;
  Form form_ = Form::kOne;
  int64_t rows_ = 1, columns_ = 1;
};

std::vector<double> centered(const Tensor& x, const Tensor& zero_point, PerLine::Side side) {
  std::vector<double> values = doubles_of(x);
  if (!zero_point.defined()) return values;
  const PerLine zero_of(x.dims(), zero_point, side, "the zero point");
  const std::vector<double> zeros = doubles_of(zero_point);
  for (size_t i = 0; i < values.size(); ++i) values[i] -= zeros[zero_of.of_element(i)];
  return values;
}

// Multiplies every element of a result by the left scale of its row and the right scale of its column.
class OutputScale {
 public:
  OutputScale(const Dims& a, const Tensor& a_scale, const Dims& b, const Tensor& b_scale, const MatMulPlan& plan)
      : a_of_(a, a_scale, PerLine::Side::kLeft, "the scale of A"),
        b_of_(b, b_scale, PerLine::Side::kRight, "the scale of B"),
        a_(doubles_of(a_scale)),
        b_(doubles_of(b_scale)),
        plan_(plan) {}

  double operator()(size_t i) const {
    const auto m = static_cast<size_t>(plan_.m), n = static_cast<size_t>(plan_.n);
    const size_t product = i / (m * n), row = i / n % m, column = i % n;
    const size_t left = a_of_.at(static_cast<size_t>(plan_.a_matrix[product]), row, 0);
    const size_t right = b_of_.at(static_cast<size_t>(plan_.b_matrix[product]), 0, column);
    return a_[left] * b_[right];
  }

 private:
  PerLine a_of_, b_of_;
  std::vector<double> a_, b_;
  const MatMulPlan& plan_;
};

std::vector<Tensor> matmul_integer(const KernelCall& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  require(is_integer(a.dtype()) && is_integer(b.dtype()), "found {} and {}; expected integers", dtype_name(a.dtype()),
          dtype_name(b.dtype()));
  const MatMulPlan plan = plan_matmul(a.dims(), b.dims(), call.work);
  const std::vector<double> sums =
      multiply(plan, centered(a, call.optional(2), PerLine::Side::kLeft), centered(b, call.optional(3), PerLine::Side::kRight));
  // Sums wrap at 32 bits, as in a 32-bit accumulator.
  Tensor result(DType::kI32, plan.output);
  std::ranges::transform(sums, result.mutable_data<int32_t>().begin(),
                         [](double sum) { return static_cast<int32_t>(static_cast<int64_t>(sum)); });
  return {result};
}

std::vector<Tensor> qlinear_matmul(const KernelCall& call) {
  const Tensor &a = call.input(0), &b = call.input(3), &y_zero = call.input(7);
  const MatMulPlan plan = plan_matmul(a.dims(), b.dims(), call.work);
  std::vector<double> y =
      multiply(plan, centered(a, call.optional(2), PerLine::Side::kLeft), centered(b, call.optional(5), PerLine::Side::kRight));
  const OutputScale scale(a.dims(), call.input(1), b.dims(), call.input(4), plan);
  const double y_scale = as_double(call.input(6)), zero = as_double(y_zero);
  const bool to_integer = is_integer(y_zero.dtype());
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] *= scale(i) / y_scale;
    y[i] = (to_integer ? std::nearbyint(y[i]) : y[i]) + zero;
  }
  return {tensor_of(y_zero.dtype(), plan.output, y)};
}

void add_output_bias(std::vector<double>& y, const Tensor& bias, int64_t n) {
  if (!bias.defined()) return;
  require_dims(bias, {n}, "the bias");
  const std::vector<double> values = doubles_of(bias);
  for (size_t i = 0; i < y.size(); ++i) y[i] += values[i % values.size()];
}

std::vector<Tensor> matmul_integer_to_float(const KernelCall& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  const MatMulPlan plan = plan_matmul(a.dims(), b.dims(), call.work);
  std::vector<double> y =
      multiply(plan, centered(a, call.optional(4), PerLine::Side::kLeft), centered(b, call.optional(5), PerLine::Side::kRight));
  const OutputScale scale(a.dims(), call.input(2), b.dims(), call.input(3), plan);
  for (size_t i = 0; i < y.size(); ++i) y[i] *= scale(i);
  add_output_bias(y, call.optional(6), plan.n);
  return {tensor_of(call.input(2).dtype(), plan.output, y)};
}

std::vector<Tensor> dynamic_quantize_matmul(const KernelCall& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  const MatMulPlan plan = plan_matmul(a.dims(), b.dims(), call.work);
  const DynamicQuantized quantized = quantize_dynamically(a);
  std::vector<double> y = multiply(plan, quantized.centered, centered(b, call.optional(3), PerLine::Side::kRight));
  const OutputScale scale(a.dims(), Tensor::scalar(quantized.scale), b.dims(), call.input(2), plan);
  for (size_t i = 0; i < y.size(); ++i) y[i] *= scale(i);
  add_output_bias(y, call.optional(4), plan.n);
  return {tensor_of(DType::kF32, plan.output, y)};
}

// C of a Gemm for element [row, column] of [m, n]; its shape broadcasts to that.
double broadcast_c(const std::vector<double>& c, const Dims& dims, size_t row, size_t column) {
  const size_t rows = dims.size() < 2 ? 1 : static_cast<size_t>(dims[0]), columns = dims.empty() ? 1 : static_cast<size_t>(dims.back());
  return c[(rows == 1 ? 0 : row * columns) + (columns == 1 ? 0 : column)];
}

void require_broadcast_c(const Tensor& c, int64_t m, int64_t n) {
  const bool rows_fit = c.rank() < 2 || c.dim(0) == m || c.dim(0) == 1;
  const bool columns_fit = c.rank() < 1 || c.dim(-1) == n || c.dim(-1) == 1;
  require(c.rank() <= 2 && rows_fit && columns_fit, "C has shape {}; expected one that broadcasts to [{}, {}]", to_string(c.dims()), m, n);
}

std::vector<Tensor> qgemm(const KernelCall& call) {
  const Tensor &a = call.input(0), &b = call.input(3);
  require_rank(a, 2, "A");
  require_rank(b, 2, "B");
  const double a_zero = as_double(call.input(2));
  std::vector<double> left = doubles_of(a), right = doubles_of(b);
  for (double& value : left) value -= a_zero;
  Dims a_dims = a.dims(), b_dims = b.dims();
  constexpr int kSwap[] = {1, 0};
  if (call.node.int_or("transA", 0) != 0) {
    left = permuted(left, a_dims, kSwap);
    std::swap(a_dims[0], a_dims[1]);
  }
  if (call.node.int_or("transB", 0) != 0) {
    right = permuted(right, b_dims, kSwap);
    std::swap(b_dims[0], b_dims[1]);
  }
  const MatMulPlan plan = plan_matmul(a_dims, b_dims, call.work);
  const PerLine b_zero_of(b_dims, call.input(5), PerLine::Side::kRight, "b_zero_point");
  const std::vector<double> b_zeros = doubles_of(call.input(5));
  for (size_t i = 0; i < right.size(); ++i) right[i] -= b_zeros[b_zero_of.of_element(i)];
  std::vector<double> y = multiply(plan, left, right);
  const OutputScale scale(a_dims, call.input(1), b_dims, call.input(4), plan);
  std::vector<double> c;
  if (call.has(6)) {
    require_broadcast_c(call.input(6), plan.m, plan.n);
    c = doubles_of(call.input(6));
  }
  const double alpha = call.node.float_or("alpha", 1.0f);
  for (size_t i = 0; i < y.size(); ++i) {
    const auto n = static_cast<size_t>(plan.n);
    if (!c.empty()) y[i] += broadcast_c(c, call.input(6).dims(), i / n, i % n);
    y[i] *= alpha * scale(i);
  }
  if (!call.has(7)) return {tensor_of(DType::kF32, plan.output, y)};
  const double y_scale = as_double(call.input(7)), zero = as_double(call.input(8));
  for (double& value : y) value = std::nearbyint(value / y_scale) + zero;
  return {tensor_of(call.input(8).dtype(), plan.output, y)};
}

}  // namespace

void add_quantized_matmul(KernelTable& table) {
  table.add("MatMulInteger", matmul_integer);
  table.add("QLinearMatMul", qlinear_matmul);
  table.add(kMicrosoft, "MatMulInteger16", matmul_integer);
  table.add(kMicrosoft, "MatMulIntegerToFloat", matmul_integer_to_float);
  table.add(kMicrosoft, "DynamicQuantizeMatMul", dynamic_quantize_matmul);
  table.add(kMicrosoft, "QGemm", qgemm);
}

}  // namespace kvik::onnx
