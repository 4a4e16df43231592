#include "onnx/eval/ops/grouped_query.h"

#include <algorithm>
#include <cmath>

#include "onnx/eval/ops/norm_row.h"
#include "onnx/eval/ops/numbers.h"

namespace kvik::onnx {
namespace {

Heads some_heads(const Heads& all, int64_t first, int64_t n) {
  Heads result(all.batch, n, all.length, all.size);
  for_rows(result, [&](int64_t b, int64_t h, int64_t i) { std::ranges::copy(all.row(b, first + h, i), result.row(b, h, i).begin()); });
  return result;
}

}  // namespace

GroupedOperands grouped_operands(const Tensor& query, const Tensor& key, const Tensor& value, int64_t n_heads, int64_t n_kv_heads) {
  require_float(query, "the query");
  require(n_heads % n_kv_heads == 0, "found {} query heads; expected a multiple of {} key heads", n_heads, n_kv_heads);
  require(key.defined() == value.defined(), "one of key and value was given; expected both or (packed into the query) none");
  if (!key.defined()) {
    const Heads all = heads_of_3d(query, n_heads + 2 * n_kv_heads, "the packed query");
    return {some_heads(all, 0, n_heads), some_heads(all, n_heads, n_kv_heads), some_heads(all, n_heads + n_kv_heads, n_kv_heads)};
  }
  GroupedOperands result{heads_of_3d(query, n_heads, "the query"), heads_of_3d(key, n_kv_heads, "the key"),
                         heads_of_3d(value, n_kv_heads, "the value")};
  const Heads &q = result.q, &k = result.k, &v = result.v;
  require(k.batch == q.batch && v.batch == q.batch && k.length == v.length && k.size == q.size && v.size == q.size,
          "query {}, key {} and value {} have shapes that do not match", to_string(query.dims()), to_string(key.dims()),
          to_string(value.dims()));
  return result;
}

void normalize_heads(Heads& heads, const Tensor& weight, double epsilon, std::string_view name) {
  if (!weight.defined()) return;
  require_dims(weight, {heads.size}, name);
  const std::vector<double> factors = doubles_of(weight);
  for_rows(heads, [&](int64_t b, int64_t h, int64_t i) {
    const std::span<double> row = heads.row(b, h, i);
    normalize_rms(row, epsilon);
    for (size_t d = 0; d < row.size(); ++d) row[d] *= factors[d];
  });
}

std::vector<double> sinks_of(const Tensor& sink, bool smooth, int64_t n_heads) {
  if (!sink.defined()) return std::vector<double>(smooth ? static_cast<size_t>(n_heads) : 0);
  require_dims(sink, {n_heads}, "head_sink");
  return doubles_of(sink);
}

double attention_scale(const Node& node, int64_t head_size) {
  const double scale = node.float_or("scale", 0.0f);
  return scale == 0 ? 1.0 / std::sqrt(static_cast<double>(head_size)) : scale;
}

}  // namespace kvik::onnx
