#include <fmt/format.h>

#include "backend/native/label/rules.h"
#include "onnx/attention_operators.h"

// Attention in one operator, and rotary positions in one.
namespace kvik::native {
namespace {

using enum Symbol;
using onnx::AttentionOperator;

struct Heads {
  int64_t n_query = 0, n_kv = 0, key_dim = 0, value_dim = 0;
};

int64_t last_size(const Axes& axes) { return axes.empty() ? 0 : row_size(axes.back()); }

// Of an input that the operator has.
Expected<Axes> axes_of(NodeLabeler& op, int input) { return op.axes(static_cast<size_t>(input)); }

// [batch, rows, heads * size] or [batch, heads, rows, size].
Expected<Heads> heads_of(NodeLabeler& op, const AttentionOperator& at) {
  KVIK_TRY(const Axes q, axes_of(op, at.query));
  KVIK_TRY(const Axes k, axes_of(op, at.key));
  KVIK_TRY(const Axes v, axes_of(op, at.value));
  Heads heads{op.node().int_or(at.query_heads, 0), op.node().int_or(at.kv_heads, 0)};
  if (q.size() == 4) heads.n_query = row_size(q[1]);
  if (k.size() == 4) heads.n_kv = row_size(k[1]);
  if (heads.n_query < 1 || heads.n_kv < 1) return op.refuse("does not specify the number of heads");
  heads.key_dim = q.size() == 4 ? last_size(q) : last_size(q) / heads.n_query;
  heads.value_dim = v.size() == 4 ? last_size(v) : last_size(v) / heads.n_kv;
  if (heads.key_dim < 1 || heads.value_dim < 1) return op.refuse("has heads of size 0");
  return heads;
}

Expected<Axes> result_axes(NodeLabeler& op, const AttentionOperator& at, const Heads& heads) {
  KVIK_TRY(Axes result, axes_of(op, at.query));
  if (result.size() != 3 && result.size() != 4) return op.refuse("queries have " + std::to_string(result.size()) + " axes");
  result.back() = {factor(result.size() == 4 ? heads.value_dim : heads.n_query * heads.value_dim)};
  return result;
}

Expected<> set_outputs(NodeLabeler& op, const AttentionOperator& at, const Heads& heads) {
  KVIK_TRY(const DType dtype, op.dtype(static_cast<size_t>(at.query)));
  KVIK_CHECK(op.set_attended_output(0, result_axes(op, at, heads), dtype));
  const Axis batch = op.one_token() ? Axis{} : Axis{factor(kBatch)};
  const auto cache = [&](int64_t size) { return Axes{batch, {factor(heads.n_kv)}, {factor(kTotal)}, {factor(size)}}; };
  KVIK_CHECK(op.set_output(static_cast<size_t>(at.present_key), cache(heads.key_dim), dtype));
  return op.set_output(static_cast<size_t>(at.present_value), cache(heads.value_dim), dtype);
}

Expected<> attend(NodeLabeler& op) {
  const AttentionOperator& at = *onnx::attention_operator(op.node().domain, op.node().op);
  for (const int i : {at.query, at.key, at.value}) {
    if (!op.is_row(static_cast<size_t>(i))) return op.refuse(fmt::format("input {} is not computed from rows", i));
  }
  KVIK_TRY(const Heads heads, heads_of(op, at));
  KVIK_CHECK(set_outputs(op, at, heads));
  op.add_attention(-1);
  return {};
}

// Positions, and tables of cosines that are given by row, belong to the rows of x.
Expected<> rotate(NodeLabeler& op, size_t first_by_row) {
  KVIK_TRY(const Axes axes, op.axes(0));
  if (axes.size() != 3 && axes.size() != 4) return op.refuse(fmt::format("rotates a tensor of {} axes", axes.size()));
  if (has_symbol(axes.back())) return op.refuse("rotates an axis of rows");
  const Axis& rows = axes.size() == 3 ? axes[1] : axes[2];
  for (size_t i = 1; i < op.n_inputs(); ++i) {
    if (!op.has(i)) continue;
    if (op.is_row(i)) return op.refuse("rotates by angles that depend on rows");
    KVIK_TRY(const std::vector<Tensor> tensors, op.at_sizes(i));
    const size_t rank = tensors.front().dims().size();
    const bool by_row = i >= first_by_row && op.label(i).kind == Label::Kind::kAuxiliary;
    Axes like = {axes[0], rows};
    if (rank == 3) like.emplace_back();
    KVIK_TRY(const Axes fitted, op.fitted(i, by_row ? like : Axes{}));
    if (by_row && !rows.empty() && rank > 1 && fitted[1] != rows) return op.refuse(fmt::format("input {} has other rows", i));
    if (by_row && rank == 1) return op.refuse("counts positions from a number that varies");
  }
  return op.emit_with(axes, op.dtype(0));
}

Expected<> rotary(NodeLabeler& op) { return rotate(op, 1); }

}  // namespace

void add_attention_rules(RuleTable& table) {
  table.add(kMicrosoft, "GroupQueryAttention", attend);
  table.add(kMicrosoft, "MultiHeadAttention", attend);
  table.add("Attention", attend);
  table.add("RotaryEmbedding", rotary);
  table.add(kMicrosoft, "RotaryEmbedding", rotary);
}

}  // namespace kvik::native
