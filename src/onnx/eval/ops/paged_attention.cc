#include <algorithm>
#include <limits>

#include "onnx/attention_operators.h"
#include "onnx/eval/groups.h"
#include "onnx/eval/ops/grouped_query.h"
#include "onnx/eval/ops/numbers.h"
#include "onnx/eval/ops/rotary.h"

namespace kvik::onnx {
namespace {

constexpr AttentionOperator kPaged = *attention_operator(kMicrosoft, "PagedAttention");

// Tokens of all sequences are concatenated; block_table has the cache blocks of each sequence.
struct Paging {
  int64_t sequences = 0, blocks = 0, block_size = 0, blocks_per_sequence = 0;
  std::vector<int64_t> starts, past, table, slots;  // slots: per token, or empty

  int64_t slot(int64_t sequence, int64_t position) const {
    const int64_t at = position / block_size;
    require(at < blocks_per_sequence, "position {} is outside the {} blocks of a sequence", position, blocks_per_sequence);
    const int64_t block = table[static_cast<size_t>(sequence * blocks_per_sequence + at)];
    require(block >= 0 && block < blocks, "block_table contains {}, there are {} blocks", block, blocks);
    return block * block_size + position % block_size;
  }
  int64_t new_tokens(int64_t sequence) const { return starts[static_cast<size_t>(sequence) + 1] - starts[static_cast<size_t>(sequence)]; }
};

Paging paging_of(const KernelCall& call, int64_t tokens) {
  Paging p;
  p.blocks = call.input(kPaged.past_key).dim(0);
  p.block_size = call.input(kPaged.past_key).dim(1);
  require_rank(call.input(kPaged.block_table), 2, "block_table");
  p.sequences = call.input(kPaged.block_table).dim(0);
  p.blocks_per_sequence = call.input(kPaged.block_table).dim(1);
  require(p.block_size > 0 && p.sequences <= std::numeric_limits<int32_t>::max(), "the block size is {}; expected a positive number",
          p.block_size);
  require_dims(call.input(kPaged.query_starts), {p.sequences + 1}, "cumulative_sequence_length");
  require_dims(call.input(kPaged.past_length), {p.sequences}, "past_seqlens");
  p.starts = integers_of(call.input(kPaged.query_starts));
  p.past = integers_of(call.input(kPaged.past_length));
  p.table = integers_of(call.input(kPaged.block_table));
  require(p.starts.front() == 0 && p.starts.back() == tokens && std::ranges::is_sorted(p.starts),
          "cumulative_sequence_length must go from 0 to {}", tokens);
  for (const int64_t past : p.past) {
    require(past >= 0 && past <= std::numeric_limits<int32_t>::max(), "past_seqlens contains {}; expected a length", past);
  }
  if (call.has(kPaged.slots)) {
    require_dims(call.input(kPaged.slots), {tokens}, "slot_mapping");
    p.slots = integers_of(call.input(kPaged.slots));
    for (const int64_t slot : p.slots) require(slot >= -1 && slot < p.blocks * p.block_size, "slot_mapping contains {}", slot);
  }
  return p;
}

// A cache [blocks, block size, heads, size], by slot and head.
struct Cache {
  std::vector<double> data;
  int64_t heads, size;
  DType dtype;

  std::span<double> row(int64_t slot, int64_t head) {
    return std::span(data).subspan(static_cast<size_t>((slot * heads + head) * size), static_cast<size_t>(size));
  }
};

Cache cache_of(const Tensor& tensor, const Heads& fresh, const Tensor& like, std::string_view name) {
  require_float(tensor, name);
  require_dims(tensor, {like.dim(0), like.dim(1), fresh.heads, fresh.size}, name);
  return {doubles_of(tensor), fresh.heads, fresh.size, tensor.dtype()};
}

void write(Cache& cache, const Heads& fresh, const Paging& p) {
  for (int64_t s = 0; s < p.sequences; ++s) {
    for (int64_t i = 0; i < p.new_tokens(s); ++i) {
      const int64_t token = p.starts[static_cast<size_t>(s)] + i;
      const int64_t slot = p.slots.empty() ? p.slot(s, p.past[static_cast<size_t>(s)] + i) : p.slots[static_cast<size_t>(token)];
      for (int64_t h = 0; slot >= 0 && h < cache.heads; ++h) {
        const std::span<double> to = cache.row(slot, h);
        for (size_t d = 0; d < to.size(); ++d) to[d] = rounded_to(cache.dtype, fresh.row(0, h, token)[d]);
      }
    }
  }
}

// The keys or values of sequence s, up to its last new token.
Heads read(Cache& cache, const Paging& p, int64_t s, const Work& work) {
  const int64_t length = p.past[static_cast<size_t>(s)] + p.new_tokens(s);
  work.take({cache.heads, length, cache.size});
  Heads rows(1, cache.heads, length, cache.size);
  for_rows(rows, [&](int64_t, int64_t h, int64_t i) { std::ranges::copy(cache.row(p.slot(s, i), h), rows.row(0, h, i).begin()); });
  return rows;
}

Heads tokens_of(const Heads& all, int64_t first, int64_t n) {
  Heads some(1, all.heads, n, all.size);
  for_rows(some, [&](int64_t, int64_t h, int64_t i) { std::ranges::copy(all.row(0, h, first + i), some.row(0, h, i).begin()); });
  return some;
}

Tensor as_sequence(const Tensor& tensor, std::string_view name) {
  if (!tensor.defined()) return tensor;
  require_rank(tensor, 2, name);
  return tensor.reshaped({1, tensor.dim(0), tensor.dim(1)});
}

void rotate_tokens(Heads& heads, const RotaryTable& table, const Paging& p, bool interleaved) {
  for (int64_t s = 0; s < p.sequences; ++s) {
    for (int64_t i = 0; i < p.new_tokens(s); ++i) {
      const int64_t position = p.past[static_cast<size_t>(s)] + i;
      for (int64_t h = 0; h < heads.heads; ++h) table.rotate(heads.row(0, h, p.starts[static_cast<size_t>(s)] + i), position, interleaved);
    }
  }
}

void require_plain(const Node& node) {
  require(node.string_or("kv_cache_layout", "SEPARATE") == "SEPARATE", "attribute 'kv_cache_layout' is '{}', only SEPARATE is supported",
          node.string_or("kv_cache_layout", ""));
  require(node.string_or("k_quant_type", "NONE") == "NONE" && node.string_or("v_quant_type", "NONE") == "NONE",
          "a quantized paged cache is not supported");
  require(node.int_or("rotary_offset", 0) == 0, "attribute 'rotary_offset' is {}, only 0 is supported", node.int_or("rotary_offset", 0));
}

std::vector<Tensor> paged_attention(const KernelCall& call) {
  const Node& node = call.node;
  require_plain(node);
  const int64_t n_heads = positive_attribute(node, kPaged.query_heads), n_kv_heads = positive_attribute(node, kPaged.kv_heads);
  GroupedOperands x =
      grouped_operands(as_sequence(call.input(kPaged.query), "the query"), as_sequence(call.optional(kPaged.key), "the key"),
                       as_sequence(call.optional(kPaged.value), "the value"), n_heads, n_kv_heads);
  require_rank(call.input(kPaged.past_key), 4, "key_cache");
  require(x.k.length == x.q.length && x.q.size > 0, "found {} queries and {} keys; expected equal numbers", x.q.length, x.k.length);
  const Paging p = paging_of(call, x.q.length);
  const double epsilon = node.float_or("qk_norm_epsilon", 1e-6f);
  normalize_heads(x.q, call.optional(kPaged.query_norm), epsilon, "q_norm_weight");
  normalize_heads(x.k, call.optional(kPaged.key_norm), epsilon, "k_norm_weight");
  if (node.int_or("do_rotary", 0) != 0) {
    const RotaryTable table(call.input(kPaged.cosines), call.input(kPaged.sines));
    rotate_tokens(x.q, table, p, node.int_or("rotary_interleaved", 0) != 0);
    rotate_tokens(x.k, table, p, node.int_or("rotary_interleaved", 0) != 0);
  }
  Cache keys = cache_of(call.input(kPaged.past_key), x.k, call.input(kPaged.past_key), "key_cache");
  Cache values = cache_of(call.input(kPaged.past_value), x.v, call.input(kPaged.past_key), "value_cache");
  write(keys, x.k, p);
  write(values, x.v, p);
  const int64_t window = node.int_or("local_window_size", -1);
  AttendOptions options;
  options.work = call.work;
  options.scale = attention_scale(node, x.q.size);
  options.softcap = node.float_or("softcap", 0.0f);
  options.sinks = sinks_of(call.optional(kPaged.sinks), false, n_heads);
  Heads y(1, n_heads, x.q.length, x.q.size);
  for (int64_t s = 0; s < p.sequences; ++s) {
    const int64_t first = p.starts[static_cast<size_t>(s)];
    options.mask = [&, s](int64_t, int64_t, int64_t i, std::span<double> scores) {
      const int64_t position = p.past[static_cast<size_t>(s)] + i;
      for (size_t j = 0; j < scores.size(); ++j) {
        const auto key = static_cast<int64_t>(j);
        if (key > position || (window > 0 && position - key >= window)) scores[j] = -std::numeric_limits<double>::infinity();
      }
    };
    const Heads out = attend(tokens_of(x.q, first, p.new_tokens(s)), read(keys, p, s, call.work), read(values, p, s, call.work), options);
    for_rows(out, [&](int64_t, int64_t h, int64_t i) { std::ranges::copy(out.row(0, h, i), y.row(0, h, first + i).begin()); });
  }
  const Tensor output = tensor_3d(call.input(kPaged.query).dtype(), y);
  return {output.reshaped({output.dim(1), output.dim(2)}), tensor_of(keys.dtype, call.input(kPaged.past_key).dims(), keys.data),
          tensor_of(values.dtype, call.input(kPaged.past_value).dims(), values.data)};
}

}  // namespace

void add_paged_attention(KernelTable& table) { table.add(kMicrosoft, "PagedAttention", paged_attention); }

}  // namespace kvik::onnx
