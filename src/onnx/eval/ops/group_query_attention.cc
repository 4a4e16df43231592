#include <algorithm>
#include <limits>

#include "onnx/attention_operators.h"
#include "onnx/eval/groups.h"
#include "onnx/eval/ops/grouped_query.h"
#include "onnx/eval/ops/kv_codec.h"
#include "onnx/eval/ops/numbers.h"
#include "onnx/eval/ops/rotary.h"

namespace kvik::onnx {
namespace {

constexpr AttentionOperator kGroupQuery = *attention_operator(kMicrosoft, "GroupQueryAttention");

// Lengths of one sequence of the batch. A row is a position of the cache.
struct Step {
  int64_t past_rows = 0;    // rows used of the past, from its start
  int64_t first_query = 0;  // the row of query 0
  int64_t visible = 0;      // rows with tokens after this call: past and new, without padding
  int64_t kept_from = 0;    // first row of present
  int64_t first_position = 0;
};

struct Lengths {
  int64_t queries = 0, fresh = 0;  // fresh: new keys; 0 if the past already has them
  int64_t past = 0, total = 0, present = 0;
  bool first_prompt = false;
  std::vector<Step> steps;

  int64_t rows(size_t b) const { return steps[b].past_rows + fresh; }
};

// The next row in a cache of only a window: once it is full, rows are dropped `gap` at a time.
int64_t windowed_end(int64_t past, int64_t capacity, int64_t gap) {
  return past <= capacity ? past : past - gap * blocks_of(past - capacity, gap);
}

Step windowed_step(const Lengths& all, int64_t total, int64_t window) {
  const int64_t gap = all.past - window + 1;
  const int64_t past = total - all.queries;
  Step step;
  step.past_rows = windowed_end(past, all.past, gap);
  step.first_query = step.past_rows;
  step.visible = step.past_rows + all.fresh;
  step.kept_from = step.visible - windowed_end(total, all.past, gap);
  step.first_position = past;
  return step;
}

Step full_step(const Lengths& all, int64_t total, bool has_past) {
  const int64_t before = all.first_prompt ? 0 : total - all.queries;
  Step step;
  if (has_past) step.past_rows = all.fresh == 0 ? total : before;
  step.first_query = has_past ? before : 0;
  step.visible = total;
  step.first_position = before;
  return step;
}

Lengths lengths_of(const KernelCall& call, const GroupedOperands& x) {
  Lengths all;
  all.queries = x.q.length;
  all.fresh = x.k.length;
  all.total = as_int(call.input(kGroupQuery.total_length));
  const bool has_past = call.has(kGroupQuery.past_key);
  all.past = has_past && call.input(kGroupQuery.past_key).rank() == 4 ? call.input(kGroupQuery.past_key).dim(2) : 0;
  all.first_prompt = all.queries == all.total;
  require(all.total > 0 && all.total <= std::numeric_limits<int32_t>::max(), "total_sequence_length is {}; expected a positive number",
          all.total);
  require(all.fresh == all.queries || (has_past && all.fresh == 0), "found {} queries and {} keys; expected equal numbers", all.queries,
          all.fresh);
  const bool windowed = call.node.int_or("sliding_window_cache", 0) == 1;
  const int64_t window = call.node.int_or("local_window_size", -1);
  require(windowed || all.total <= all.past + all.queries, "total_sequence_length is {}, the past has {} and {} are new", all.total,
          all.past, all.queries);
  all.present = windowed ? all.past : std::max(all.total, all.past);
  if (windowed) {
    require(window > 0 && has_past && all.past >= window && all.fresh > 0, "a cache for a window of {} keys has room for {}", window,
            all.past);
  }
  const std::vector<int64_t> last = integers_of(call.input(kGroupQuery.last_key));
  require(static_cast<int64_t>(last.size()) == x.q.batch, "seqlens_k has shape {}; expected one element for each of {} sequences",
          to_string(call.input(kGroupQuery.last_key).dims()), x.q.batch);
  for (const int64_t index : last) {
    require(index >= 0 && index < std::numeric_limits<int32_t>::max() && (windowed || index < all.present),
            "seqlens_k contains {}; expected a number below {}", index, all.present);
    require((all.first_prompt && !windowed) || index + 1 >= all.queries, "seqlens_k contains {}, which is too small for {} new tokens",
            index, all.queries);
    all.steps.push_back(windowed ? windowed_step(all, index + 1, window) : full_step(all, index + 1, has_past));
    const Step& step = all.steps.back();
    require(step.past_rows <= all.past && step.visible <= step.past_rows + all.fresh && step.first_query >= 0,
            "a sequence has {} tokens, but {} are new and the past has {}", index + 1, all.fresh, all.past);
  }
  return all;
}

void rotate_heads(Heads& heads, const RotaryTable& table, const KernelCall& call, const Lengths& all) {
  std::vector<int64_t> given;
  int64_t stride = 0;
  if (call.has(kGroupQuery.positions)) {
    require_dims(call.input(kGroupQuery.positions), {heads.batch, -1}, "position_ids");
    stride = call.input(kGroupQuery.positions).dim(1);
    require(stride >= heads.length, "position_ids has shape {}; expected {} positions", to_string(call.input(kGroupQuery.positions).dims()),
            heads.length);
    given = integers_of(call.input(kGroupQuery.positions));
  }
  for_rows(heads, [&](int64_t b, int64_t h, int64_t i) {
    int64_t position = all.steps[static_cast<size_t>(b)].first_position + i;
    if (!given.empty()) {
      // A first prompt only has its start.
      require(given[0] < table.positions(), "position {} is outside the rotary table", given[0]);
      position = all.first_prompt ? given[0] + i : given[static_cast<size_t>(b * stride + i)];
    }
    table.rotate(heads.row(b, h, i), position, call.node.int_or("rotary_interleaved", 0) != 0);
  });
}

// The rows that attention reads: past, then new. Shorter sequences are padded with zeros.
Heads all_rows(const Heads& past, const Heads& fresh, const Lengths& all) {
  int64_t longest = 0;
  for (size_t b = 0; b < all.steps.size(); ++b) longest = std::max(longest, all.rows(b));
  Heads rows(fresh.batch, fresh.heads, longest, fresh.size);
  for_rows(rows, [&](int64_t b, int64_t h, int64_t i) {
    const int64_t past_rows = all.steps[static_cast<size_t>(b)].past_rows;
    if (i < past_rows) {
      std::ranges::copy(past.row(b, h, i), rows.row(b, h, i).begin());
    } else if (i < past_rows + fresh.length) {
      std::ranges::copy(fresh.row(b, h, i - past_rows), rows.row(b, h, i).begin());
    }
  });
  return rows;
}

Heads present_rows(const Heads& rows, const Lengths& all) {
  Heads present(rows.batch, rows.heads, all.present, rows.size);
  for_rows(present, [&](int64_t b, int64_t h, int64_t i) {
    const auto at = static_cast<size_t>(b);
    const int64_t row = all.steps[at].kept_from + i;
    if (row < all.rows(at)) std::ranges::copy(rows.row(b, h, row), present.row(b, h, i).begin());
  });
  return present;
}

struct Visible {
  int64_t from, to;
};

Visible visible_rows(const Node& node, const Step& step, int64_t query) {
  const bool causal = node.int_or("causal", 1) != 0;
  const int64_t window = node.int_or("local_window_size", -1);
  const int64_t to = causal ? std::min(step.first_query + query + 1, step.visible) : step.visible;
  return {window >= 0 && to > window ? to - window : 0, to};
}

struct Cached {
  Heads rows;      // after encoding and decoding in the type of the cache
  Tensor present;  // undefined unless requested
};

// Codec and rows of the key or of the value.
Cached cached(const KernelCall& call, const Heads& fresh, const Lengths& all, bool is_key) {
  const Tensor& past = call.optional(is_key ? kGroupQuery.past_key : kGroupQuery.past_value);
  const KvCodec::Form form = {call.node.string_or(is_key ? "k_quant_type" : "v_quant_type", "NONE"),
                              call.node.int_or("kv_cache_bit_width", 0),
                              call.optional(is_key ? kGroupQuery.key_scale : kGroupQuery.value_scale)};
  DType dtype = call.input(kGroupQuery.query).dtype();
  if (past.defined()) {
    dtype = past.dtype();
  } else if (form.quantization != "NONE") {
    dtype = form.bits == 4 ? DType::kU8 : DType::kI8;
  }
  const KvCodec codec(dtype, form, fresh.heads, fresh.size);
  const std::string_view name = is_key ? "past_key" : "past_value";
  const Heads before = past.defined() ? codec.decode(past, name) : Heads(fresh.batch, fresh.heads, 0, fresh.size);
  require(before.batch == fresh.batch && before.length == all.past, "{} has shape {}; expected a batch of {} and {} positions", name,
          to_string(past.dims()), fresh.batch, all.past);
  const Heads rows = all_rows(before, fresh, all);
  const bool wanted = call.wants(is_key ? kGroupQuery.present_key : kGroupQuery.present_value);
  return {codec.decode(codec.encode(rows), name), wanted ? codec.encode(present_rows(rows, all)) : Tensor()};
}

void prepare(GroupedOperands& x, const KernelCall& call, const Lengths& all) {
  require(call.has(kGroupQuery.query_norm) == call.has(kGroupQuery.key_norm),
          "one of q_norm_weight and k_norm_weight was given; expected both or none");
  const double epsilon = call.node.float_or("qk_norm_epsilon", 1e-6f);
  normalize_heads(x.q, call.optional(kGroupQuery.query_norm), epsilon, "q_norm_weight");
  normalize_heads(x.k, call.optional(kGroupQuery.key_norm), epsilon, "k_norm_weight");
  if (call.node.int_or("do_rotary", 0) == 0) return;
  const RotaryTable table(call.input(kGroupQuery.cosines), call.input(kGroupQuery.sines));
  rotate_heads(x.q, table, call, all);
  rotate_heads(x.k, table, call, all);
}

std::vector<Tensor> group_query_attention(const KernelCall& call) {
  const Node& node = call.node;
  const int64_t n_heads = positive_attribute(node, kGroupQuery.query_heads), n_kv_heads = positive_attribute(node, kGroupQuery.kv_heads);
  GroupedOperands x = grouped_operands(call.input(kGroupQuery.query), call.optional(kGroupQuery.key), call.optional(kGroupQuery.value),
                                       n_heads, n_kv_heads);
  require(call.has(kGroupQuery.past_key) == call.has(kGroupQuery.past_value),
          "one of past_key and past_value was given; expected both or none");
  require(node.int_or("causal", 1) != 0 || node.int_or("local_window_size", -1) == -1, "a local window needs causal attention");
  const Lengths all = lengths_of(call, x);
  prepare(x, call, all);
  const Cached keys = cached(call, x.k, all, true), values = cached(call, x.v, all, false);

  const AttentionBias bias(call.optional(kGroupQuery.score_mask), x.q, all.total);
  AttendOptions options;
  options.work = call.work;
  options.scale = attention_scale(node, x.q.size);
  options.softcap = node.float_or("softcap", 0.0f);
  options.sinks = sinks_of(call.optional(kGroupQuery.sinks), node.int_or("smooth_softmax", 0) != 0, n_heads);
  options.mask = [&](int64_t b, int64_t h, int64_t i, std::span<double> scores) {
    bias.add_to(b, h, i, scores);
    const Visible visible = visible_rows(node, all.steps[static_cast<size_t>(b)], i);
    for (size_t j = 0; j < scores.size(); ++j) {
      const auto row = static_cast<int64_t>(j);
      if (row < visible.from || row >= visible.to) scores[j] = -std::numeric_limits<double>::infinity();
    }
  };
  const int64_t qk_output = node.int_or("qk_output", 0);
  require(qk_output >= 0 && qk_output <= 2, "attribute 'qk_output' is {}; expected 0, 1 or 2", qk_output);
  Heads kept;
  if (call.wants(3)) {
    require(qk_output != 0, "the scores are requested, but attribute 'qk_output' is not set");
    kept = Heads(x.q.batch, n_heads, x.q.length, all.total);
    const AttendOptions::Stage wanted = qk_output == 1 ? AttendOptions::Stage::kMasked : AttendOptions::Stage::kProbabilities;
    options.watch = [&kept, wanted](AttendOptions::Stage stage, int64_t b, int64_t h, int64_t i, std::span<double> scores) {
      if (stage != wanted) return;
      const std::span<double> row = kept.row(b, h, i);
      for (size_t j = 0; j < std::min(row.size(), scores.size()); ++j)
        row[j] = scores[j] == -std::numeric_limits<double>::infinity() ? 0.0 : scores[j];
    };
  }
  const DType dtype = call.input(kGroupQuery.query).dtype();
  std::vector<Tensor> outputs = {tensor_3d(dtype, attend(x.q, keys.rows, values.rows, options)), keys.present, values.present};
  if (call.wants(3)) outputs.push_back(tensor_4d(dtype, kept));
  return outputs;
}

}  // namespace

void add_group_query_attention(KernelTable& table) { table.add(kMicrosoft, "GroupQueryAttention", group_query_attention); }

}  // namespace kvik::onnx
