#include <algorithm>
#include <limits>

#include "onnx/attention_operators.h"
#include "onnx/eval/groups.h"
#include "onnx/eval/ops/grouped_query.h"
#include "onnx/eval/ops/numbers.h"
#include "onnx/eval/ops/rotary.h"

namespace kvik::onnx {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// Which blocks of keys each block of queries attends to, in compressed row storage; heads cycle through the layouts.
class BlockMask {
 public:
  BlockMask(const Tensor& rows, const Tensor& columns, int64_t block) : block_(block) {
    require_rank(rows, 2, "block_row_indices");
    require_dims(columns, {rows.dim(0), -1}, "block_col_indices");
    layouts_ = rows.dim(0);
    n_rows_ = rows.dim(1) - 1;
    n_columns_ = columns.dim(1);
    require(layouts_ > 0 && n_rows_ > 0, "block_row_indices has shape {}; expected at least one row", to_string(rows.dims()));
    rows_ = integers_of(rows);
    columns_ = integers_of(columns);
    for (const int64_t row : rows_)
      require(row >= 0 && row <= n_columns_, "block_row_indices contains {}, there are {} columns", row, n_columns_);
  }

  bool sees(int64_t head, int64_t query, int64_t key) const {
    const int64_t layout = head % layouts_, row = query / block_;
    require(row < n_rows_, "position {} is outside the {} rows of the block mask", query, n_rows_);
    const auto at = static_cast<size_t>(layout * (n_rows_ + 1) + row);
    for (int64_t i = rows_[at]; i < rows_[at + 1]; ++i) {
      if (columns_[static_cast<size_t>(layout * n_columns_ + i)] == key / block_) return true;
    }
    return false;
  }

 private:
  int64_t block_, layouts_ = 0, n_rows_ = 0, n_columns_ = 0;
  std::vector<int64_t> rows_, columns_;
};

void rotate_from(Heads& heads, const RotaryTable& table, const std::vector<int64_t>& past, bool interleaved) {
  for_rows(heads, [&](int64_t b, int64_t h, int64_t i) {
    const int64_t position = past[static_cast<size_t>(b)] + i;
    table.rotate(heads.row(b, h, i), std::min(position, table.positions() - 1), interleaved);  // padding may be outside the table
  });
}

// The buffer with the new rows after the past.
Heads updated(const Tensor& past, const Heads& fresh, const std::vector<int64_t>& lengths, std::string_view name) {
  require_dims(past, {fresh.batch, fresh.heads, -1, fresh.size}, name);
  Heads buffer = heads_of_4d(past, name);
  for (const int64_t length : lengths) {
    require(length >= 0 && length <= buffer.length - fresh.length, "{} has room for {} positions; there are {} and {} new ones", name,
            buffer.length, length, fresh.length);
  }
  for_rows(fresh, [&](int64_t b, int64_t h, int64_t i) {
    const std::span<double> to = buffer.row(b, h, lengths[static_cast<size_t>(b)] + i);
    for (size_t d = 0; d < to.size(); ++d) to[d] = rounded_to(past.dtype(), fresh.row(b, h, i)[d]);
  });
  return buffer;
}

constexpr AttentionOperator kSparse = *attention_operator(kMicrosoft, "SparseAttention");

std::vector<Tensor> sparse_attention(const KernelCall& call) {
  const Node& node = call.node;
  const int64_t n_heads = positive_attribute(node, kSparse.query_heads), n_kv_heads = positive_attribute(node, kSparse.kv_heads);
  GroupedOperands x =
      grouped_operands(call.input(kSparse.query), call.optional(kSparse.key), call.optional(kSparse.value), n_heads, n_kv_heads);
  require(x.k.length == x.q.length, "found {} queries and {} keys; expected equal numbers", x.q.length, x.k.length);
  const BlockMask blocks(call.input(kSparse.block_row_starts), call.input(kSparse.block_columns),
                         positive_attribute(node, "sparse_block_size"));
  require_dims(call.input(kSparse.key_lengths), {x.q.batch}, "key_total_sequence_lengths");
  const std::vector<int64_t> totals = integers_of(call.input(kSparse.key_lengths));
  const bool prompt = as_int(call.input(kSparse.total_length)) == x.q.length;
  std::vector<int64_t> past;
  for (const int64_t total : totals) {
    require(total > 0 && total <= std::numeric_limits<int32_t>::max() && (prompt ? total <= x.q.length : total >= x.q.length),
            "a sequence has {} tokens, but {} are new", total, x.q.length);
    past.push_back(prompt ? 0 : total - x.q.length);
  }
  if (node.int_or("do_rotary", 0) != 0) {
    const RotaryTable table(call.input(kSparse.cosines), call.input(kSparse.sines));
    require(table.positions() > 0, "the table of angles is empty");
    rotate_from(x.q, table, past, node.int_or("rotary_interleaved", 0) != 0);
    rotate_from(x.k, table, past, node.int_or("rotary_interleaved", 0) != 0);
  }
  const Heads keys = updated(call.input(kSparse.past_key), x.k, past, "past_key"),
              values = updated(call.input(kSparse.past_value), x.v, past, "past_value");
  call.work.take({x.q.batch, n_heads, x.q.length, keys.length, call.input(kSparse.block_columns).dim(1)});  // linear search for blocks
  AttendOptions options;
  options.work = call.work;
  options.scale = attention_scale(node, x.q.size);
  options.mask = [&](int64_t b, int64_t h, int64_t i, std::span<double> scores) {
    const int64_t total = totals[static_cast<size_t>(b)], query = std::min(past[static_cast<size_t>(b)] + i, total - 1);
    for (size_t j = 0; j < scores.size(); ++j) {
      const auto key = static_cast<int64_t>(j);
      if (key > query || !blocks.sees(h, query, key)) scores[j] = kHidden;
    }
  };
  return {tensor_3d(call.input(kSparse.query).dtype(), attend(x.q, keys, values, options)),
          tensor_4d(call.input(kSparse.past_key).dtype(), keys), tensor_4d(call.input(kSparse.past_value).dtype(), values)};
}

}  // namespace

void add_sparse_attention(KernelTable& table) { table.add(kMicrosoft, "SparseAttention", sparse_attention); }

}  // namespace kvik::onnx
