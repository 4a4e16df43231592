#include "onnx/eval/ops/attend.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/eval/ops/numbers.h"

namespace kvik::onnx {
namespace {

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

std::string shape(const Heads& heads) { return to_string(Dims{heads.batch, heads.heads, heads.length, heads.size}); }

void require_attendable(const Heads& q, const Heads& k, const Heads& v) {
  const bool same_keys = k.batch == v.batch && k.heads == v.heads && k.length == v.length;
  require(same_keys && q.batch == k.batch && q.size == k.size && k.heads > 0 && q.heads % k.heads == 0,
          "queries {}, keys {} and values {} do not match", shape(q), shape(k), shape(v));
}

}  // namespace

Heads::Heads(int64_t n_batch, int64_t n_heads, int64_t n_length, int64_t n_size)
    : batch(n_batch), heads(n_heads), length(n_length), size(n_size) {
  const Dims dims = {n_batch, n_heads, n_length, n_size};
  const int64_t n = element_count(dims);
  if (n > kMostResultBytes / static_cast<int64_t>(sizeof(double))) {
    throw Error(Code::kTooLarge, fmt::format("heads of shape {} exceed the limit of {} bytes", to_string(dims), kMostResultBytes));
  }
  data.resize(static_cast<size_t>(n));
}

Heads heads_of_4d(const Tensor& tensor, std::string_view name) {
  require_rank(tensor, 4, name);
  Heads result;
  result.batch = tensor.dim(0);
  result.heads = tensor.dim(1);
  result.length = tensor.dim(2);
  result.size = tensor.dim(3);
  result.data = doubles_of(tensor);
  return result;
}

Heads heads_of_3d(const Tensor& tensor, int64_t n_heads, std::string_view name) {
  require_rank(tensor, 3, name);
  require(tensor.dim(2) % n_heads == 0, "{} has shape {}; expected its last dimension to be a multiple of {} heads", name,
          to_string(tensor.dims()), n_heads);
  Heads result(tensor.dim(0), n_heads, tensor.dim(1), tensor.dim(2) / n_heads);
  const std::vector<double> values = doubles_of(tensor);
  for_rows(result, [&](int64_t b, int64_t h, int64_t i) {
    const auto from = static_cast<size_t>(((b * result.length + i) * n_heads + h) * result.size);
    std::ranges::copy(std::span(values).subspan(from, static_cast<size_t>(result.size)), result.row(b, h, i).begin());
  });
  return result;
}

Tensor tensor_4d(DType dtype, const Heads& heads) {
  return tensor_of(dtype, {heads.batch, heads.heads, heads.length, heads.size}, heads.data);
}

Tensor tensor_3d(DType dtype, const Heads& heads) {
  std::vector<double> values(heads.data.size());
  for_rows(heads, [&](int64_t b, int64_t h, int64_t i) {
    const int64_t to = ((b * heads.length + i) * heads.heads + h) * heads.size;
    std::ranges::copy(heads.row(b, h, i), values.begin() + to);
  });
  return tensor_of(dtype, {heads.batch, heads.length, heads.heads * heads.size}, values);
}

Heads joined(const Heads& first, const Heads& second, std::string_view names) {
  require(first.batch == second.batch && first.heads == second.heads && first.size == second.size,
          "{} are {} and {}; expected shapes that differ only in the third size", names, shape(first), shape(second));
  Heads result(first.batch, first.heads, first.length + second.length, first.size);
  for_rows(result, [&](int64_t b, int64_t h, int64_t i) {
    std::ranges::copy(i < first.length ? first.row(b, h, i) : second.row(b, h, i - first.length), result.row(b, h, i).begin());
  });
  return result;
}

void softmax(std::span<double> scores, const double* sink) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const double score : scores) largest = std::max(largest, score);
  if (sink != nullptr) largest = std::max(largest, *sink);
  if (largest == -std::numeric_limits<double>::infinity()) {
    std::ranges::fill(scores, 0.0);
    return;
  }
  double sum = sink != nullptr ? std::exp(*sink - largest) : 0.0;
  for (double& score : scores) {
    score = std::exp(score - largest);
    sum += score;
  }
  for (double& score : scores) score /= sum;
}

Heads attend(const Heads& q, const Heads& k, const Heads& v, const AttendOptions& options) {
  using Stage = AttendOptions::Stage;
  require_attendable(q, k, v);
  const auto watch = [&](Stage stage, int64_t b, int64_t h, int64_t i, std::span<double> scores) {
    if (options.watch) options.watch(stage, b, h, i, scores);
  };
  options.work.take({q.batch, q.heads, q.length, std::max<int64_t>(1, k.length), q.size + v.size});
  Heads result(q.batch, q.heads, q.length, v.size);
  std::vector<double> scores(result.data.empty() ? 0 : static_cast<size_t>(k.length));
  for_rows(result, [&](int64_t b, int64_t h, int64_t i) {
    const int64_t key_head = h / (q.heads / k.heads);
    for (int64_t j = 0; j < k.length; ++j) scores[static_cast<size_t>(j)] = dot(q.row(b, h, i), k.row(b, key_head, j)) * options.scale;
    watch(Stage::kScaled, b, h, i, scores);
    if (options.softcap > 0) {
      for (double& score : scores) score = std::tanh(score / options.softcap) * options.softcap;
    }
    watch(Stage::kCapped, b, h, i, scores);
    if (options.mask) options.mask(b, h, i, scores);
    watch(Stage::kMasked, b, h, i, scores);
    softmax(scores, options.sinks.empty() ? nullptr : &options.sinks[static_cast<size_t>(h)]);
    watch(Stage::kProbabilities, b, h, i, scores);
    const std::span<double> out = result.row(b, h, i);
    for (int64_t j = 0; j < k.length; ++j) {
      const double share = scores[static_cast<size_t>(j)];
      if (share == 0) continue;  // a masked key may contain anything, including NaN
      const std::span<const double> value = v.row(b, key_head, j);
      for (size_t d = 0; d < out.size(); ++d) out[d] += share * value[d];
    }
  });
  return result;
}

AttentionBias::AttentionBias(const Tensor& tensor, const Heads& q, int64_t n_keys) {
  if (!tensor.defined()) return;
  const auto either = [](int64_t found, int64_t wanted) { return found == wanted || found == 1; };
  require(tensor.rank() == 4 && either(tensor.dim(0), q.batch) && either(tensor.dim(1), q.heads) && tensor.dim(2) == q.length &&
              tensor.dim(3) == n_keys,
          "attention_bias has shape {}; expected [{} or 1, {} or 1, {}, {}]", to_string(tensor.dims()), q.batch, q.heads, q.length, n_keys);
  data_ = doubles_of(tensor);
  dims_ = tensor.dims();
}

void AttentionBias::add_to(int64_t b, int64_t h, int64_t i, std::span<double> scores) const {
  if (data_.empty()) return;
  const int64_t matrix = (dims_[0] == 1 ? 0 : b) * dims_[1] + (dims_[1] == 1 ? 0 : h);
  const auto from = static_cast<size_t>((matrix * dims_[2] + i) * dims_[3]);
  for (size_t j = 0; j < std::min(scores.size(), static_cast<size_t>(dims_[3])); ++j) scores[j] += data_[from + j];
}

}  // namespace kvik::onnx
