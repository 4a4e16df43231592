#include "engine/pooling.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numbers>

#include "kvik/error.h"

namespace kvik::engine {
namespace {

constexpr std::string_view kNames[] = {"cls", "max", "mean", "mean_sqrt_len", "weightedmean", "lasttoken"};

using Rows = std::span<const float>;

void add_row(Rows row, std::vector<float>& out) { out.insert(out.end(), row.begin(), row.end()); }

void add_max(Rows rows, size_t size, size_t first, std::vector<float>& out) {
  for (size_t d = 0; d < size; ++d) {
    float most = rows[first * size + d];
    for (size_t at = (first + 1) * size + d; at < rows.size(); at += size) most = std::max(most, rows[at]);
    out.push_back(most);
  }
}

// Sums of rows, each times its weight, over what `divisor` makes of the sum of weights.
void add_mean(Rows rows, size_t size, size_t first, Pooling pooling, std::vector<float>& out) {
  const size_t n = rows.size() / size;
  const auto weight_of = [&](size_t row) { return pooling == Pooling::kWeightedMean ? static_cast<double>(row + 1) : 1.0; };
  double weights = 0;
  for (size_t row = first; row < n; ++row) weights += weight_of(row);
  const double divisor = pooling == Pooling::kMeanSqrtLen ? std::sqrt(weights) : weights;
  for (size_t d = 0; d < size; ++d) {
    double sum = 0;
    for (size_t row = first; row < n; ++row) sum += weight_of(row) * rows[row * size + d];
    out.push_back(static_cast<float>(sum / divisor));
  }
}

double activate(double x, Activation activation) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kTanh: return std::tanh(x);
    case Activation::kRelu: return std::max(0.0, x);
    case Activation::kGelu: return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
    case Activation::kSilu: return x / (1 + std::exp(-x));
  }
  return x;
}

}  // namespace

std::string_view pooling_name(Pooling pooling) { return kNames[static_cast<size_t>(pooling)]; }

std::vector<Pooling> parse_pooling(std::string_view names) {
  std::vector<Pooling> poolings;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find('+', begin), names.size());
    const std::string_view name = names.substr(begin, end - begin);
    const auto found = std::ranges::find(kNames, name);
    if (found == std::end(kNames) || poolings.size() == std::size(kNames))
      throw Error(Code::kBadArgument, fmt::format("unknown pooling '{}'; expected {}, several of them joined by '+', or graph",
                                                  name.substr(0, 40), fmt::join(kNames, ", ")));
    poolings.push_back(static_cast<Pooling>(found - std::begin(kNames)));
    begin = end + 1;
  }
  return poolings;
}

std::string pooling_names(std::span<const Pooling> poolings) {
  std::string names;
  for (const Pooling pooling : poolings) names += (names.empty() ? "" : "+") + std::string(pooling_name(pooling));
  return names;
}

std::vector<float> pool(const Tensor& hidden, std::span<const Pooling> poolings, int64_t n_skipped) {
  const Rows rows = hidden.data<float>();
  const auto size = static_cast<size_t>(hidden.dim(1));
  const auto n = static_cast<size_t>(hidden.dim(0));
  const auto first = static_cast<size_t>(n_skipped);
  std::vector<float> vector;
  for (const Pooling pooling : poolings) {
    if (pooling == Pooling::kCls) {
      add_row(rows.first(size), vector);
    } else if (pooling == Pooling::kLastToken) {
      add_row(rows.last(size), vector);
    } else if (first >= n) {  // nothing but a prompt that is left out
      vector.resize(vector.size() + size, 0.0f);
    } else if (pooling == Pooling::kMax) {
      add_max(rows, size, first, vector);
    } else {
      add_mean(rows, size, first, pooling, vector);
    }
  }
  return vector;
}

void normalize(std::vector<float>& vector) {
  double squares = 0;
  for (const float x : vector) squares += static_cast<double>(x) * x;
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (float& x : vector) x = static_cast<float>(x / length);
}

std::vector<float> apply(const DenseLayer& layer, std::span<const float> vector) {
  const auto n_out = static_cast<size_t>(layer.weight.dim(0)), n_in = static_cast<size_t>(layer.weight.dim(1));
  if (vector.size() != n_in)
    throw Error(Code::kBadModel, fmt::format("a dense layer reads {} numbers; the pooled vector has {}", n_in, vector.size()));
  const std::span<const float> weight = layer.weight.data<float>();
  std::vector<float> out(n_out);
  for (size_t o = 0; o < n_out; ++o) {
    double sum = layer.bias.empty() ? 0.0 : static_cast<double>(layer.bias[o]);
    for (size_t i = 0; i < n_in; ++i) sum += static_cast<double>(weight[o * n_in + i]) * vector[i];
    out[o] = static_cast<float>(activate(sum, layer.activation));
  }
  return out;
}

}  // namespace kvik::engine
