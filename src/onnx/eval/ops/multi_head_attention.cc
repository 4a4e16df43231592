#include <algorithm>

#include "onnx/attention_operators.h"
#include "onnx/eval/groups.h"
#include "onnx/eval/ops/grouped_query.h"
#include "onnx/eval/ops/microsoft_attention.h"
#include "onnx/eval/ops/numbers.h"

// com.microsoft MultiHeadAttention and DecoderMaskedMultiHeadAttention: projected query, key and value in several layouts.
namespace kvik::onnx {
namespace {

constexpr AttentionOperator kMultiHead = *attention_operator(kMicrosoft, "MultiHeadAttention");
constexpr AttentionOperator kDecoderMasked = *attention_operator(kMicrosoft, "DecoderMaskedMultiHeadAttention");

struct Operands {
  Heads q, k, v;
  bool keys_are_cached = false;  // key and value are a complete cache: [batch, heads, length, size]
};

// Part `part` of [batch, length, heads, n_parts, size].
Heads part_of(const Tensor& tensor, int64_t n_heads, int64_t part, int64_t n_parts, std::string_view name) {
  require_dims(tensor, {-1, -1, n_heads, n_parts, -1}, name);
  Heads result(tensor.dim(0), n_heads, tensor.dim(1), tensor.dim(4));
  const std::vector<double> values = doubles_of(tensor);
  for_rows(result, [&](int64_t b, int64_t h, int64_t i) {
    const int64_t from = (((b * result.length + i) * n_heads + h) * n_parts + part) * result.size;
    std::ranges::copy(std::span(values).subspan(static_cast<size_t>(from), static_cast<size_t>(result.size)), result.row(b, h, i).begin());
  });
  return result;
}

// packed_3d: the query may be [batch, length, 3 * width].
Operands operands(const KernelCall& call, const AttentionOperator& at, bool packed_3d) {
  const int64_t n_heads = positive_attribute(call.node, at.query_heads);
  const Tensor &query = call.input(at.query), &key = call.optional(at.key), &value = call.optional(at.value);
  require_float(query, "the query");
  if (!key.defined()) {
    require(!value.defined(), "a value was given without a key");
    if (packed_3d && query.rank() == 3) {
      GroupedOperands x = grouped_operands(query, Tensor(), Tensor(), n_heads, n_heads);
      return {std::move(x.q), std::move(x.k), std::move(x.v)};
    }
    const auto part = [&](int64_t which) { return part_of(query, n_heads, which, 3, "the packed query, key and value"); };
    return {part(0), part(1), part(2)};
  }
  Operands x;
  x.q = heads_of_3d(query, n_heads, "the query");
  if (!value.defined()) {
    x.k = part_of(key, n_heads, 0, 2, "the packed key and value");
    x.v = part_of(key, n_heads, 1, 2, "the packed key and value");
    return x;
  }
  x.keys_are_cached = key.rank() == 4;
  x.k = x.keys_are_cached ? heads_of_4d(key, "the key") : heads_of_3d(key, n_heads, "the key");
  x.v = x.keys_are_cached ? heads_of_4d(value, "the value") : heads_of_3d(value, n_heads, "the value");
  return x;
}

void add_bias(Heads& heads, std::span<const double> bias) {
  const auto size = static_cast<size_t>(heads.size);
  for_rows(heads, [&](int64_t b, int64_t h, int64_t i) {
    const std::span<double> row = heads.row(b, h, i);
    for (size_t d = 0; d < size; ++d) row[d] += bias[static_cast<size_t>(h) * size + d];
  });
}

void add_biases(Operands& x, const Tensor& bias) {
  if (!bias.defined()) return;
  const int64_t q = x.q.heads * x.q.size, k = x.k.heads * x.k.size, v = x.v.heads * x.v.size;
  require_dims(bias, {q + k + v}, "the bias");
  const std::vector<double> values = doubles_of(bias);
  add_bias(x.q, std::span(values).first(static_cast<size_t>(q)));
  if (x.keys_are_cached) return;  // the cache includes the bias
  add_bias(x.k, std::span(values).subspan(static_cast<size_t>(q), static_cast<size_t>(k)));
  add_bias(x.v, std::span(values).last(static_cast<size_t>(v)));
}

// The past and the buffers that it shares with present.
struct Past {
  Heads key, value;      // of `length` positions
  int64_t length = 0;    // before the new positions
  int64_t capacity = 0;  // of a buffer shared by past and present; 0: none
  Heads own_key, own_value;
};

Heads first_positions(const Heads& all, int64_t length) {
  Heads result(all.batch, all.heads, length, all.size);
  for_rows(result, [&](int64_t b, int64_t h, int64_t i) { std::ranges::copy(all.row(b, h, i), result.row(b, h, i).begin()); });
  return result;
}

// With beam search, position j of a sequence may be in the cache of another beam, given by [batch / beams, beams, capacity].
Heads follow_beams(const Heads& own, const Tensor& indirection) {
  require_rank(indirection, 3, "cache_indirection");
  const int64_t beams = indirection.dim(1), width = indirection.dim(2);
  require(beams > 0 && own.batch % beams == 0 && indirection.dim(0) == own.batch / beams && width >= own.length,
          "cache_indirection has shape {}; expected {} sequences of {} positions", to_string(indirection.dims()), own.batch, own.length);
  const std::vector<int64_t> kept_by = integers_of(indirection);
  Heads result = own;
  for_rows(result, [&](int64_t b, int64_t h, int64_t i) {
    const int64_t beam = kept_by[static_cast<size_t>(b * width + i)];
    require(beam >= 0 && beam < beams, "cache_indirection contains {}, there are {} beams", beam, beams);
    std::ranges::copy(own.row(b / beams * beams + beam, h, i), result.row(b, h, i).begin());
  });
  return result;
}

Past past_of(const KernelCall& call, const AttentionOperator& at, const Operands& x) {
  Past past;
  require(call.has(at.past_key) == call.has(at.past_value), "one of past_key and past_value was given; expected both or none");
  if (!call.has(at.past_key)) {
    past.key = Heads(x.k.batch, x.k.heads, 0, x.k.size);
    past.value = Heads(x.v.batch, x.v.heads, 0, x.v.size);
    return past;
  }
  require(!x.keys_are_cached, "a past was given although key and value are a complete cache");
  past.own_key = heads_of_4d(call.input(at.past_key), "past_key");
  past.own_value = heads_of_4d(call.input(at.past_value), "past_value");
  past.length = past.own_key.length;
  if (call.has(at.past_length)) {
    past.capacity = past.own_key.length;
    past.length = as_int(call.input(at.past_length));
    require(past.length >= 0 && past.length <= past.capacity && past.capacity - past.length >= x.k.length &&
                past.own_value.length == past.capacity,
            "a past of {} and {} new positions exceed the buffers of {} and {}", past.length, x.k.length, past.capacity,
            past.own_value.length);
    past.own_key = first_positions(past.own_key, past.length);
    past.own_value = first_positions(past.own_value, past.length);
  }
  const bool beams = call.has(at.cache_indirection);
  past.key = beams ? follow_beams(past.own_key, call.input(at.cache_indirection)) : past.own_key;
  past.value = beams ? follow_beams(past.own_value, call.input(at.cache_indirection)) : past.own_value;
  return past;
}

Tensor present(const Heads& own, const Heads& fresh, int64_t capacity, DType dtype) {
  const Heads all = own.batch == 0 ? fresh : joined(own, fresh, "the past and the new positions");
  if (capacity <= all.length) return tensor_4d(dtype, all);
  Heads buffer(all.batch, all.heads, capacity, all.size);
  for_rows(all, [&](int64_t b, int64_t h, int64_t i) { std::ranges::copy(all.row(b, h, i), buffer.row(b, h, i).begin()); });
  return tensor_4d(dtype, buffer);
}

std::vector<Tensor> run(const KernelCall& call, const AttentionOperator& at, bool packed_3d) {
  const Node& node = call.node;
  Operands in = operands(call, at, packed_3d);
  add_biases(in, call.optional(at.bias));
  const Past past = past_of(call, at, in);
  const DType dtype = call.input(at.query).dtype();
  for (double& value : in.k.data) value = rounded_to(dtype, value);  // as the cache stores them
  for (double& value : in.v.data) value = rounded_to(dtype, value);
  MultiHead x;
  x.work = call.work;
  x.k = joined(past.key, in.k, "the past and the new keys");
  x.v = joined(past.value, in.v, "the past and the new values");
  x.q = in.q;
  x.past_length = past.length;
  x.causal = node.int_or("unidirectional", 0) != 0;
  x.scale = attention_scale(node, x.q.size);
  x.mask_filter = node.float_or("mask_filter_value", -10000.0f);
  x.mask = call.optional(at.padding_mask);
  x.bias = call.optional(at.score_mask);
  Heads scores;
  if (call.wants(3)) x.scores = &scores;
  std::vector<Tensor> outputs = {tensor_3d(dtype, attend_multi_head(x))};
  outputs.push_back(call.wants(at.present_key) ? present(past.own_key, in.k, past.capacity, dtype) : Tensor());
  outputs.push_back(call.wants(at.present_value) ? present(past.own_value, in.v, past.capacity, dtype) : Tensor());
  if (call.wants(3)) outputs.push_back(tensor_4d(dtype, scores));
  return outputs;
}

std::vector<Tensor> multi_head_attention(const KernelCall& call) { return run(call, kMultiHead, false); }

std::vector<Tensor> decoder_masked_multi_head_attention(const KernelCall& call) {
  const Tensor& query = call.input(kDecoderMasked.query);
  require(query.rank() == 3 && query.dim(1) == 1, "found a query of shape {}; expected one token", to_string(query.dims()));
  return run(call, kDecoderMasked, true);
}

}  // namespace

void add_multi_head_attention(KernelTable& table) {
  table.add(kMicrosoft, "MultiHeadAttention", multi_head_attention);
  table.add(kMicrosoft, "DecoderMaskedMultiHeadAttention", decoder_masked_multi_head_attention);
}

}  // namespace kvik::onnx
