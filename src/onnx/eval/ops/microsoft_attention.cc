#include "onnx/eval/ops/microsoft_attention.h"

#include <algorithm>
#include <limits>

#include "onnx/attention_operators.h"
#include "onnx/eval/groups.h"
#include "onnx/eval/ops/grouped_query.h"
#include "onnx/eval/ops/matmul_plan.h"
#include "onnx/eval/ops/numbers.h"

// com.microsoft Attention and QAttention: one matrix projects to query, key and value; the cache is one tensor [2, …].
namespace kvik::onnx {

PaddingMask::PaddingMask(const Tensor& mask, const Heads& q, int64_t n_keys, double filter)
    : batch_(q.batch), queries_(q.length), keys_(n_keys), filter_(filter) {
  if (!mask.defined()) return;
  const Dims& dims = mask.dims();
  values_ = integers_of(mask);
  if (dims == Dims{batch_, keys_}) {
    form_ = Form::kKeys;
  } else if (dims == Dims{batch_} || dims == Dims{3 * batch_ + 2}) {
    form_ = Form::kLengths;
  } else if (dims == Dims{2 * batch_}) {
    form_ = Form::kEndsAndStarts;
  } else if (dims == Dims{batch_, queries_, keys_}) {
    form_ = Form::kQueriesAndKeys;
  } else if (dims.size() == 4 && dims[0] == batch_ && dims[1] == 1 && dims[2] == dims[3] && dims[2] >= keys_ && keys_ >= queries_) {
    form_ = Form::kSquare;
    side_ = dims[3];
  } else {
    const bool says_nothing = dims.size() == 2 && (dims[0] == batch_ || dims[0] == 1) && dims[1] == 1;
    require(says_nothing, "a mask of shape {} does not match {} sequences of {} queries and {} keys", to_string(dims), batch_, queries_,
            keys_);
  }
}

bool PaddingMask::masked(int64_t b, int64_t i, int64_t j) const {
  const auto value = [&](int64_t at) { return values_[static_cast<size_t>(at)]; };
  switch (form_) {
    case Form::kNone: return false;
    case Form::kLengths: return j >= value(b);
    case Form::kEndsAndStarts: return j >= value(b) || j < value(batch_ + b);
    case Form::kKeys: return value(b * keys_ + j) <= 0;
    case Form::kQueriesAndKeys: return value((b * queries_ + i) * keys_ + j) <= 0;
    case Form::kSquare: return value((b * side_ + keys_ - queries_ + i) * side_ + j) <= 0;
  }
  return false;
}

void PaddingMask::add_to(int64_t b, int64_t i, std::span<double> scores) const {
  for (size_t j = 0; j < scores.size(); ++j) {
    if (masked(b, i, static_cast<int64_t>(j))) scores[j] += filter_;
  }
}

Heads attend_multi_head(const MultiHead& x) {
  const PaddingMask padding(x.mask, x.q, x.k.length, x.mask_filter);
  const AttentionBias bias(x.bias, x.q, x.k.length);
  AttendOptions options;
  options.work = x.work;
  options.scale = x.scale;
  options.mask = [&](int64_t b, int64_t h, int64_t i, std::span<double> scores) {
    padding.add_to(b, i, scores);
    bias.add_to(b, h, i, scores);
    for (size_t j = 0; x.causal && j < scores.size(); ++j) {
      if (static_cast<int64_t>(j) > x.past_length + i) scores[j] = -std::numeric_limits<double>::infinity();
    }
  };
  if (x.scores != nullptr) {
    *x.scores = Heads(x.q.batch, x.q.heads, x.q.length, x.k.length);
    options.watch = [&](AttendOptions::Stage stage, int64_t b, int64_t h, int64_t i, std::span<double> scores) {
      if (stage == AttendOptions::Stage::kMasked) std::ranges::copy(scores, x.scores->row(b, h, i).begin());
    };
  }
  return attend(x.q, x.k, x.v, options);
}

namespace {

constexpr AttentionOperator kFused = *attention_operator(kMicrosoft, "Attention");
constexpr AttentionOperator kQuantized = *attention_operator(kMicrosoft, "QAttention");

// Columns [first, first + n_heads * size) of projected tokens [batch, length, width], as heads.
Heads columns(const std::vector<double>& projected, const Dims& dims, int64_t first, int64_t n_heads, int64_t size) {
  Heads result(dims[0], n_heads, dims[1], size);
  for_rows(result, [&](int64_t b, int64_t h, int64_t i) {
    const auto from = static_cast<size_t>((b * dims[1] + i) * dims[2] + first + h * size);
    std::ranges::copy(std::span(projected).subspan(from, static_cast<size_t>(size)), result.row(b, h, i).begin());
  });
  return result;
}

struct PastInputs {
  Tensor past, length;  // length: of the past in a buffer shared by past and present
  DType dtype = DType::kUndefined;
};

// past: [2, batch, heads, length, size], keys first.
struct Stacked {
  Heads key, value;
  int64_t capacity = 0;
  bool shared_buffer = false;
};

Stacked unstack(const KernelCall& call, const PastInputs& in, const MultiHead& x) {
  Stacked result;
  result.shared_buffer = call.node.int_or("past_present_share_buffer", 0) != 0;
  if (!in.past.defined()) {
    result.key = Heads(x.k.batch, x.k.heads, 0, x.k.size);
    result.value = Heads(x.v.batch, x.v.heads, 0, x.v.size);
    return result;
  }
  require(x.k.size == x.v.size, "keys have {} and values {} elements; a past needs equal sizes", x.k.size, x.v.size);
  require_dims(in.past, {2, x.k.batch, x.k.heads, -1, x.k.size}, "the past");
  result.capacity = in.past.dim(3);
  int64_t length = result.capacity;
  if (result.shared_buffer) {
    require(in.length.defined(), "a past in a shared buffer needs past_sequence_length");
    length = as_int(in.length);
    require(length >= 0 && length <= result.capacity && result.capacity - length >= x.k.length,
            "a past of {} and {} new positions exceed the buffer of {}", length, x.k.length, result.capacity);
  }
  const Tensor both = in.past.reshaped({2 * x.k.batch, x.k.heads, result.capacity, x.k.size});
  const Heads all = heads_of_4d(both, "the past");
  const auto part = [&](int64_t first) {
    Heads some(x.k.batch, x.k.heads, length, x.k.size);
    for_rows(some, [&](int64_t b, int64_t h, int64_t i) { std::ranges::copy(all.row(first + b, h, i), some.row(b, h, i).begin()); });
    return some;
  };
  result.key = part(0);
  result.value = part(x.k.batch);
  return result;
}

Tensor stack(const Heads& k, const Heads& v, const Stacked& past, DType dtype) {
  const int64_t length = past.shared_buffer ? std::max(past.capacity, k.length) : k.length;
  Heads both(2 * k.batch, k.heads, length, k.size);
  for_rows(k, [&](int64_t b, int64_t h, int64_t i) {
    std::ranges::copy(k.row(b, h, i), both.row(b, h, i).begin());
    std::ranges::copy(v.row(b, h, i), both.row(k.batch + b, h, i).begin());
  });
  return tensor_of(dtype, {2, k.batch, k.heads, length, k.size}, both.data);
}

// Shared by Attention and QAttention, after the projection.
std::vector<Tensor> finish(const KernelCall& call, MultiHead x, const PastInputs& in) {
  const Node& node = call.node;
  require(node.int_or("do_rotary", 0) == 0,
          "attribute 'do_rotary' is set; rotary positions inside Attention are not supported, use RotaryEmbedding");
  const Stacked past = unstack(call, in, x);
  const auto as_stored = [&](Heads heads) {
    for (double& value : heads.data) value = rounded_to(in.dtype, value);
    return heads;
  };
  x.work = call.work;
  x.past_length = past.key.length;
  x.k = joined(past.key, as_stored(x.k), "the past and the new keys");
  x.v = joined(past.value, as_stored(x.v), "the past and the new values");
  x.causal = node.int_or("unidirectional", 0) != 0;
  x.scale = attention_scale(node, x.q.size);
  x.mask_filter = node.float_or("mask_filter_value", -10000.0f);
  std::vector<Tensor> outputs = {tensor_3d(in.dtype, attend_multi_head(x))};
  if (call.wants(kFused.present_key_value)) {
    require(x.k.size == x.v.size, "keys have {} and values {} elements; present needs equal sizes", x.k.size, x.v.size);
    outputs.push_back(stack(x.k, x.v, past, in.dtype));
  }
  return outputs;
}

MultiHead split_projection(const Node& node, const std::vector<double>& projected, const Dims& dims) {
  const int64_t n_heads = positive_attribute(node, kFused.query_heads);
  const std::vector<int64_t> sizes = node.ints_or("qkv_hidden_sizes", {dims[2] / 3, dims[2] / 3, dims[2] / 3});
  bool sound = sizes.size() == 3 && sizes[0] == sizes[1];
  int64_t sum = 0;
  for (const int64_t size : sizes) {
    sound = sound && size >= 0 && size <= dims[2] && size % n_heads == 0;
    sum += sound ? size : 0;
  }
  require(sound && sum == dims[2], "a projection to {} columns cannot be divided into query, key and value of {} heads", dims[2], n_heads);
  MultiHead x;
  x.q = columns(projected, dims, 0, n_heads, sizes[0] / n_heads);
  x.k = columns(projected, dims, sizes[0], n_heads, sizes[1] / n_heads);
  x.v = columns(projected, dims, sizes[0] + sizes[1], n_heads, sizes[2] / n_heads);
  return x;
}

void add_bias(std::vector<double>& projected, const Tensor& bias, int64_t width) {
  if (!bias.defined()) return;
  require_dims(bias, {width}, "the bias");
  const std::vector<double> values = doubles_of(bias);
  for (size_t i = 0; i < projected.size(); ++i) projected[i] += values[i % values.size()];
}

std::vector<Tensor> fused_attention(const KernelCall& call) {
  const Tensor &input = call.input(kFused.rows), &weights = call.input(kFused.projection);
  require_float(input, "the input");
  require_rank(input, 3, "the input");
  require_dims(weights, {input.dim(2), -1}, "the weights");
  const MatMulPlan plan = plan_matmul(input.dims(), weights.dims(), call.work);
  std::vector<double> projected = multiply(plan, doubles_of(input), doubles_of(weights));
  add_bias(projected, call.optional(kFused.bias), plan.n);
  MultiHead x = split_projection(call.node, projected, plan.output);
  x.mask = call.optional(kFused.padding_mask);
  x.bias = call.optional(kFused.score_mask);
  return finish(call, std::move(x), {call.optional(kFused.past_key_value), call.optional(kFused.past_length), input.dtype()});
}

std::vector<double> minus_zero_point(const Tensor& tensor, const Tensor& zero_point, std::string_view name) {
  std::vector<double> values = doubles_of(tensor);
  if (!zero_point.defined()) return values;
  const std::vector<double> zeros = doubles_of(zero_point);
  require(zeros.size() == 1 || (tensor.rank() == 2 && zero_point.dims() == Dims{tensor.dim(1)}),
          "the zero point of {} has shape {}; expected one per column", name, to_string(zero_point.dims()));
  for (size_t i = 0; i < values.size(); ++i) values[i] -= zeros[i % zeros.size()];
  return values;
}

std::vector<Tensor> quantized_attention(const KernelCall& call) {
  const Tensor &input = call.input(kQuantized.rows), &weights = call.input(kQuantized.projection);
  const Tensor &scale = call.input(kQuantized.projection_scale), &bias = call.input(kQuantized.bias);
  const Tensor& zero_point = call.optional(kQuantized.rows_zero_point);
  require_rank(input, 3, "the input");
  require_dims(weights, {input.dim(2), -1}, "the weights");
  require(zero_point.size() <= 1, "the zero point of the input has shape {}; expected one element", to_string(zero_point.dims()));
  const MatMulPlan plan = plan_matmul(input.dims(), weights.dims(), call.work);
  std::vector<double> projected = multiply(plan, minus_zero_point(input, zero_point, "the input"),
                                           minus_zero_point(weights, call.optional(kQuantized.projection_zero_point), "the weights"));
  const std::vector<double> scales = doubles_of(scale);
  require(scales.size() == 1 || scale.dims() == Dims{plan.n}, "the scale of the weights has shape {}; expected one per column",
          to_string(scale.dims()));
  const double input_scale = as_double(call.input(kQuantized.rows_scale));
  for (size_t i = 0; i < projected.size(); ++i) projected[i] *= input_scale * scales[i % scales.size()];
  add_bias(projected, bias, plan.n);
  MultiHead x = split_projection(call.node, projected, plan.output);
  x.mask = call.optional(kQuantized.padding_mask);
  return finish(call, std::move(x), {call.optional(kQuantized.past_key_value), Tensor(), bias.dtype()});
}

}  // namespace

void add_microsoft_attention(KernelTable& table) {
  table.add(kMicrosoft, "Attention", fused_attention);
  table.add(kMicrosoft, "QAttention", quantized_attention);
}

}  // namespace kvik::onnx
