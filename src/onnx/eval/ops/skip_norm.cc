#include <cmath>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/broadcast.h"
#include "onnx/eval/ops/elements.h"
#include "onnx/eval/ops/norm_row.h"
#include "onnx/eval/ops/numbers.h"

// RMS normalization, and fused forms of it and of layer normalization.
namespace kvik::onnx {
namespace {

std::vector<Tensor> rms_normalization(const KernelCall& call) {
  const Tensor &x = call.input(0), &scale = call.input(1);
  require_float(x, "the input");
  require_float(scale, "the scale");
  require(x.rank() > 0, "the input is a scalar; expected at least one dimension");
  const int axis = normal_axis(call.node.int_or("axis", -1), x.rank());
  const double epsilon = call.node.float_or("epsilon", 1e-5f);
  const AxisSplit around = split_at(x.dims(), axis);
  const auto size = static_cast<size_t>(around.n * around.inner);
  std::vector<double> y = doubles_of(x);
  const std::vector<double> scales = doubles_of(broadcast_to(scale, x.dims()));
  std::vector<double> inverses;
  for (size_t from = 0; size > 0 && from < y.size(); from += size) {
    inverses.push_back(normalize_rms(std::span(y).subspan(from, size), epsilon));
  }
  for (size_t i = 0; i < y.size(); ++i) y[i] *= scales[i];
  std::vector<Tensor> outputs = {tensor_of(scale.dtype(), x.dims(), y)};
  if (call.wants(1)) {
    Dims dims = x.dims();
    for (size_t i = static_cast<size_t>(axis); i < dims.size(); ++i) dims[i] = 1;
    inverses.resize(static_cast<size_t>(element_count(dims)));
    outputs.push_back(tensor_of(DType::kF32, dims, inverses));
  }
  return outputs;
}

std::vector<double> feature_vector(const Tensor& tensor, int64_t size, std::string_view name) {
  if (!tensor.defined()) return {};
  require_dims(tensor, {size}, name);
  return doubles_of(tensor);
}

// The skip connection, repeated to the size of the input: of the same shape, or without a batch (or with a batch of 1).
std::vector<double> skip_values(const Tensor& input, const Tensor& skip) {
  const bool same = skip.dims() == input.dims();
  const bool one_batch = input.rank() == 3 && (skip.rank() == 2 || (skip.rank() == 3 && skip.dim(0) == 1)) &&
                         skip.dim(-1) == input.dim(-1) && skip.dim(-2) == input.dim(-2);
  require(same || one_batch, "the skip connection has shape {}; expected {} with or without the batch", to_string(skip.dims()),
          to_string(input.dims()));
  return doubles_of(skip);
}

struct SkipNorm {
  bool rms = false;
  size_t beta = 0, bias = 0;  // input numbers; 0: the operator has none
};

std::vector<Tensor> skip_normalization(const KernelCall& call, const SkipNorm& form) {
  const Tensor& input = call.input(0);
  require_float(input, "the input");
  require(input.rank() == 2 || input.rank() == 3, "the input has shape {}; expected two or three dimensions", to_string(input.dims()));
  const int64_t size = input.dim(-1);
  const std::vector<double> skip = skip_values(input, call.input(1));
  const std::vector<double> gamma = feature_vector(call.input(2), size, "gamma");
  const std::vector<double> beta = feature_vector(form.beta == 0 ? Tensor() : call.optional(form.beta), size, "beta");
  const std::vector<double> bias = feature_vector(call.optional(form.bias), size, "the bias");
  const double epsilon = call.node.float_or("epsilon", 1e-12f);
  std::vector<double> sum = doubles_of(input);
  const auto n = static_cast<size_t>(size);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += skip[i % skip.size()] + (bias.empty() ? 0.0 : bias[i % n]);
  std::vector<double> y = sum;
  std::vector<double> means, inverses;
  for (size_t from = 0; n > 0 && from < y.size(); from += n) {
    const std::span<double> row = std::span(y).subspan(from, n);
    const RowStatistics statistics = form.rms ? RowStatistics{0, normalize_rms(row, epsilon)} : normalize_layer(row, epsilon);
    means.push_back(statistics.mean);
    inverses.push_back(statistics.inverse_deviation);
    for (size_t i = 0; i < n; ++i) row[i] = row[i] * gamma[i] + (beta.empty() ? 0.0 : beta[i]);
  }
  Dims per_row = input.dims();
  per_row.back() = 1;
  const auto statistic = [&](size_t output, const std::vector<double>& values) {
    return call.wants(output) ? tensor_of(DType::kF32, per_row, values) : Tensor();
  };
  return {tensor_of(input.dtype(), input.dims(), y), statistic(1, means), statistic(2, inverses),
          tensor_of(input.dtype(), input.dims(), sum)};
}

std::vector<Tensor> skip_layer_normalization(const KernelCall& call) {
  return skip_normalization(call, {.rms = false, .beta = 3, .bias = 4});
}
std::vector<Tensor> skip_rms_normalization(const KernelCall& call) { return skip_normalization(call, {.rms = true, .beta = 0, .bias = 3}); }

// Adds row `ids[i]` of a table to the vector of every token.
void add_rows(std::vector<double>& sum, const Tensor& table, const std::vector<int64_t>& ids, std::string_view name) {
  const std::vector<double> rows = doubles_of(table);
  const auto size = static_cast<size_t>(table.dim(1));
  for (size_t token = 0; token < ids.size(); ++token) {
    require(ids[token] >= 0 && ids[token] < table.dim(0), "id {} is outside the {} table of {} rows", ids[token], name, table.dim(0));
    for (size_t d = 0; d < size; ++d) sum[token * size + d] += rows[static_cast<size_t>(ids[token]) * size + d];
  }
}

std::vector<int64_t> position_ids(const KernelCall& call, int64_t batch, int64_t length) {
  std::vector<int64_t> result(static_cast<size_t>(batch * length));
  std::vector<int64_t> given;
  if (call.has(8)) {
    require_dims(call.input(8), {-1, length}, "position_ids");
    require(call.input(8).dim(0) == batch || call.input(8).dim(0) == 1, "position_ids has shape {}; expected a batch of {} or 1",
            to_string(call.input(8).dims()), batch);
    given = integers_of(call.input(8));
  }
  for (size_t i = 0; i < result.size(); ++i) { result[i] = given.empty() ? static_cast<int64_t>(i) % length : given[i % given.size()]; }
  return result;
}

// The number of leading ones of each row.
Tensor mask_index(const Tensor& mask, int64_t batch, int64_t length) {
  Tensor result(DType::kI32, {batch});
  if (!mask.defined()) return result;
  require_dims(mask, {batch, length}, "the mask");
  const std::vector<int64_t> values = integers_of(mask);
  const std::span<int32_t> counts = result.mutable_data<int32_t>();
  for (size_t i = 0; i < values.size(); ++i) counts[i / static_cast<size_t>(length)] += values[i] == 1 ? 1 : 0;
  return result;
}

std::vector<Tensor> embed_layer_normalization(const KernelCall& call) {
  const Tensor &ids = call.input(0), &words = call.input(2), &positions = call.input(3);
  require_rank(ids, 2, "input_ids");
  require_rank(words, 2, "word_embedding");
  require_float(words, "word_embedding");
  const int64_t batch = ids.dim(0), length = ids.dim(1), size = words.dim(1);
  require_dims(positions, {-1, size}, "position_embedding");
  std::vector<double> sum(static_cast<size_t>(element_count(Dims{batch, length, size})));
  add_rows(sum, words, integers_of(ids), "word");
  add_rows(sum, positions, position_ids(call, batch, length), "position");
  if (call.has(4)) {
    require_dims(call.input(4), {-1, size}, "segment_embedding");
    std::vector<int64_t> segments(static_cast<size_t>(batch * length));
    if (call.has(1)) {
      require_dims(call.input(1), {batch, length}, "segment_ids");
      segments = integers_of(call.input(1));
    }
    add_rows(sum, call.input(4), segments, "segment");
  }
  const std::vector<double> gamma = feature_vector(call.input(5), size, "gamma"), beta = feature_vector(call.input(6), size, "beta");
  std::vector<double> y = sum;
  const auto n = static_cast<size_t>(size);
  for (size_t from = 0; n > 0 && from < y.size(); from += n) {
    const std::span<double> row = std::span(y).subspan(from, n);
    normalize_layer(row, call.node.float_or("epsilon", 1e-12f));
    for (size_t i = 0; i < n; ++i) row[i] = row[i] * gamma[i] + beta[i];
  }
  const Dims dims = {batch, length, size};
  return {tensor_of(words.dtype(), dims, y), mask_index(call.optional(7), batch, length), tensor_of(words.dtype(), dims, sum)};
}

std::vector<Tensor> gated_rms_norm(const KernelCall& call) {
  const Tensor &x = call.input(0), &scale = call.input(1), &gate = call.input(2);
  require_float(x, "X");
  require_rank(scale, 1, "the scale");
  require(gate.dims() == x.dims(), "X and the gate have shapes {} and {}; expected equal shapes", to_string(x.dims()),
          to_string(gate.dims()));
  require(x.rank() > 0 && scale.dim(0) > 0 && x.dim(-1) % scale.dim(0) == 0,
          "X has shape {}; expected its last dimension to be a multiple of {}", to_string(x.dims()), scale.dim(0));
  std::vector<double> y = doubles_of(x);
  const std::vector<double> gamma = doubles_of(scale), gates = doubles_of(gate);
  for (size_t from = 0; from < y.size(); from += gamma.size()) {
    normalize_rms(std::span(y).subspan(from, gamma.size()), call.node.float_or("epsilon", 1e-5f));
  }
  for (size_t i = 0; i < y.size(); ++i) y[i] *= gamma[i % gamma.size()] * gates[i] / (1.0 + std::exp(-gates[i]));
  return {tensor_of(x.dtype(), x.dims(), y)};
}

}  // namespace

double normalize_rms(std::span<double> row, double epsilon) {
  double squares = 0;
  for (const double value : row) squares += value * value;
  const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(row.size()) + epsilon);
  for (double& value : row) value *= inverse;
  return inverse;
}

RowStatistics normalize_layer(std::span<double> row, double epsilon) {
  const auto n = static_cast<double>(row.size());
  double sum = 0, squares = 0;
  for (const double value : row) sum += value;
  const double mean = sum / n;
  for (const double value : row) squares += (value - mean) * (value - mean);
  const double inverse = 1.0 / std::sqrt(squares / n + epsilon);
  for (double& value : row) value = (value - mean) * inverse;
  return {mean, inverse};
}

void add_skip_norm(KernelTable& table) {
  table.add("RMSNormalization", rms_normalization);
  table.add("SimplifiedLayerNormalization", rms_normalization);
  table.add(kMicrosoft, "SimplifiedLayerNormalization", rms_normalization);
  table.add(kMicrosoft, "SkipLayerNormalization", skip_layer_normalization);
  table.add(kMicrosoft, "SkipSimplifiedLayerNormalization", skip_rms_normalization);
  table.add(kMicrosoft, "EmbedLayerNormalization", embed_layer_normalization);
  table.add(kMicrosoft, "GatedRMSNorm", gated_rms_norm);
}

}  // namespace kvik::onnx
