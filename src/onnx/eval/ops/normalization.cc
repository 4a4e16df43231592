#include <algorithm>
#include <cmath>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/broadcast.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"

// Everything is computed in double and rounded once.
namespace kvik::onnx {
namespace {

struct Moments {
  double mean;
  double variance;
};

Moments moments_of(std::span<const double> row) {
  double total = 0;
  for (const double x : row) total += x;
  const double mean = total / static_cast<double>(row.size());
  double squares = 0;
  for (const double x : row) squares += (x - mean) * (x - mean);
  return {mean, squares / static_cast<double>(row.size())};
}

Tensor from_doubles(const std::vector<double>& values, const Dims& dims, DType dtype) { return cast(Tensor::of(dims, values), dtype); }

// Scale and bias broadcast to the normalized axes.
std::vector<double> stretched(const Tensor& x, const Dims& dims, double absent) {
  if (!x.defined()) return std::vector<double>(static_cast<size_t>(element_count(dims)), absent);
  return as_doubles(broadcast_to(x, dims));
}

Tensors layer_normalization(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const int axis = normal_axis(call.node.int_or("axis", -1), x.rank());
  const double epsilon = call.node.float_or("epsilon", 1e-5f);
  Dims dims = x.dims();
  std::fill(dims.begin() + axis, dims.end(), 1);
  const int64_t stash = call.node.int_or("stash_type", 1);
  require(stash == 1 || stash == 16 || stash == 11 || stash == 10, "stash_type {} is not a float type", stash);
  const auto statistics = static_cast<DType>(stash);
  if (x.size() == 0) return {x, new_tensor(statistics, dims), new_tensor(statistics, dims)};
  const Dims row_dims(x.dims().begin() + axis, x.dims().end());
  const auto n = static_cast<size_t>(element_count(row_dims));
  const std::vector<double> scale = stretched(call.input(1), row_dims, 1.0);
  const std::vector<double> bias = stretched(call.optional(2), row_dims, 0.0);
  std::vector<double> values = as_doubles(x);
  const size_t n_rows = values.size() / n;
  std::vector<double> means(n_rows);
  std::vector<double> inverses(n_rows);
  for (size_t r = 0; r < n_rows; ++r) {
    const std::span<double> row = std::span(values).subspan(r * n, n);
    const Moments moments = moments_of(row);
    means[r] = moments.mean;
    inverses[r] = 1.0 / std::sqrt(moments.variance + epsilon);
    for (size_t i = 0; i < n; ++i) row[i] = (row[i] - means[r]) * inverses[r] * scale[i] + bias[i];
  }
  return {from_doubles(values, x.dims(), x.dtype()), from_doubles(means, dims, statistics), from_doubles(inverses, dims, statistics)};
}

// One number per channel, checked.
std::vector<double> per_channel(const Tensor& x, int64_t n_channels, std::string_view what) {
  require(x.rank() == 1 && x.dim(0) == n_channels, "{} has shape {}; expected [{}]", what, to_string(x.dims()), n_channels);
  return as_doubles(x);
}

AxisSplit channels_of(const Tensor& x) {
  require(x.rank() >= 1, "a scalar has no channels");
  if (x.rank() == 1) return {x.dim(0), 1, 1};  // a batch of single numbers
  return split_at(x.dims(), 1);
}

Tensors batch_normalization(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const AxisSplit split = channels_of(x);
  require(call.node.int_or("spatial", 1) != 0, "spatial = 0 is not supported");
  require(call.node.int_or("training_mode", 0) == 0, "training mode is not supported; export the model for inference");
  const std::vector<double> scale = per_channel(call.input(1), split.n, "scale");
  const std::vector<double> bias = per_channel(call.input(2), split.n, "B");
  const std::vector<double> mean = per_channel(call.input(3), split.n, "mean");
  const std::vector<double> variance = per_channel(call.input(4), split.n, "var");
  const double epsilon = call.node.float_or("epsilon", 1e-5f);
  std::vector<double> values = as_doubles(x);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t c = i / static_cast<size_t>(split.inner) % static_cast<size_t>(split.n);
    values[i] = (values[i] - mean[c]) / std::sqrt(variance[c] + epsilon) * scale[c] + bias[c];
  }
  return {from_doubles(values, x.dims(), x.dtype())};
}

// Normalizes runs of `n` elements, each to mean 0 and variance 1.
void normalize_runs(std::vector<double>& values, size_t n, double epsilon) {
  for (size_t begin = 0; n != 0 && begin + n <= values.size(); begin += n) {
    const std::span<double> row = std::span(values).subspan(begin, n);
    const Moments moments = moments_of(row);
    for (double& x : row) x = (x - moments.mean) / std::sqrt(moments.variance + epsilon);
  }
}

Tensors instance_normalization(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const AxisSplit split = channels_of(x);
  const std::vector<double> scale = per_channel(call.input(1), split.n, "scale");
  const std::vector<double> bias = per_channel(call.input(2), split.n, "B");
  std::vector<double> values = as_doubles(x);
  normalize_runs(values, static_cast<size_t>(split.inner), call.node.float_or("epsilon", 1e-5f));
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t c = i / static_cast<size_t>(split.inner) % static_cast<size_t>(split.n);
    values[i] = values[i] * scale[c] + bias[c];
  }
  return {from_doubles(values, x.dims(), x.dtype())};
}

// Scale and bias are per group before opset 21 and per channel since.
Tensors group_normalization(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const AxisSplit split = channels_of(x);
  const int64_t groups = call.node.int_or("num_groups", 0);
  require(groups > 0 && split.n % groups == 0, "{} channels cannot be divided into {} groups", split.n, groups);
  const int64_t n_scales = call.node.opset < 21 ? groups : split.n;
  const std::vector<double> scale = per_channel(call.input(1), n_scales, "scale");
  const std::vector<double> bias = per_channel(call.input(2), n_scales, "bias");
  std::vector<double> values = as_doubles(x);
  normalize_runs(values, static_cast<size_t>(split.n / groups * split.inner), call.node.float_or("epsilon", 1e-5f));
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t channel = i / static_cast<size_t>(split.inner) % static_cast<size_t>(split.n);
    const size_t c = channel / static_cast<size_t>(split.n / n_scales);
    values[i] = values[i] * scale[c] + bias[c];
  }
  return {from_doubles(values, x.dims(), x.dtype())};
}

Tensors lp_normalization(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const int64_t p = call.node.int_or("p", 2);
  require(p == 1 || p == 2, "p is {}; expected 1 or 2", p);
  if (x.size() == 0) return {x};
  const auto [outer, n, inner] = split_at(x.dims(), normal_axis(call.node.int_or("axis", -1), x.rank()));
  std::vector<double> values = as_doubles(x);
  for (int64_t row = 0; row < outer * inner; ++row) {
    const auto at = [&, start = row / inner * n * inner + row % inner, step = inner](int64_t i) -> double& {
      return values[static_cast<size_t>(start + i * step)];
    };
    double norm = 0;
    for (int64_t i = 0; i < n; ++i) norm += p == 1 ? std::fabs(at(i)) : at(i) * at(i);
    if (p == 2) norm = std::sqrt(norm);
    for (int64_t i = 0; i < n; ++i) at(i) = norm == 0 ? 0 : at(i) / norm;  // zeros stay zeros
  }
  return {from_doubles(values, x.dims(), x.dtype())};
}

}  // namespace

void add_normalization(KernelTable& table) {
  table.add("BatchNormalization", batch_normalization);
  table.add("GroupNormalization", group_normalization);
  table.add("InstanceNormalization", instance_normalization);
  table.add("LayerNormalization", layer_normalization);
  table.add("LpNormalization", lp_normalization);
}

}  // namespace kvik::onnx
