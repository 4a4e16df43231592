#include <algorithm>
#include <fmt/format.h>

#include "backend/native/rows/rules.h"

// Attention in one operator, and rotary positions in one.
namespace kvik::native {
namespace {

using enum Symbol;

struct Heads {
  int64_t n_query = 0, n_kv = 0, key_dim = 0, value_dim = 0;
};

int64_t last_size(const Axes& axes) { return axes.empty() ? 0 : row_size(axes.back()); }

// [batch, rows, heads * size] or [batch, heads, rows, size].
Heads heads_of(Step& step, int64_t n_query, int64_t n_kv) {
  const Axes &q = step.axes(0), &k = step.axes(1), &v = step.axes(2);
  Heads heads{n_query, n_kv};
  if (q.size() == 4) heads.n_query = row_size(q[1]);
  if (k.size() == 4) heads.n_kv = row_size(k[1]);
  if (heads.n_query < 1 || heads.n_kv < 1) step.refuse("does not say how many heads there are");
  heads.key_dim = q.size() == 4 ? last_size(q) : last_size(q) / heads.n_query;
  heads.value_dim = v.size() == 4 ? last_size(v) : last_size(v) / heads.n_kv;
  if (heads.key_dim < 1 || heads.value_dim < 1) step.refuse("has heads of no size");
  return heads;
}

Axes result_axes(Step& step, const Heads& heads) {
  Axes result = step.axes(0);
  if (result.size() != 3 && result.size() != 4) step.refuse("queries have " + std::to_string(result.size()) + " axes");
  result.back() = {factor(result.size() == 4 ? heads.value_dim : heads.n_query * heads.value_dim)};
  return result;
}

void give_outputs(Step& step, const Heads& heads) {
  step.give_attended(0, result_axes(step, heads), step.dtype(0));
  const Axis batch = step.one_token() ? Axis{} : Axis{factor(kBatch)};
  const auto cache = [&](int64_t size) { return Axes{batch, {factor(heads.n_kv)}, {factor(kTotal)}, {factor(size)}}; };
  step.give(1, cache(heads.key_dim), step.dtype(0));
  step.give(2, cache(heads.value_dim), step.dtype(0));
}

void attend(Step& step, int64_t n_query, int64_t n_kv) {
  for (size_t i = 0; i < 3; ++i) {
    if (!step.is_row(i)) step.refuse(fmt::format("input {} is not computed from rows", i));
  }
  give_outputs(step, heads_of(step, n_query, n_kv));
  step.attend(fused_attention(step.walk().attention(), step.node()));
}

void group_query_attention(Step& step) { attend(step, step.node().int_or("num_heads", 0), step.node().int_or("kv_num_heads", 0)); }

void multi_head_attention(Step& step) { attend(step, step.node().int_or("num_heads", 0), step.node().int_or("num_heads", 0)); }

void standard_attention(Step& step) { attend(step, step.node().int_or("q_num_heads", 0), step.node().int_or("kv_num_heads", 0)); }

// Positions, and tables of cosines that are given by row, belong to the rows of x.
void rotate(Step& step, size_t first_by_row) {
  const Axes axes = step.axes(0);
  if (axes.size() != 3 && axes.size() != 4) step.refuse(fmt::format("rotates a tensor of {} axes", axes.size()));
  if (has_symbol(axes.back())) step.refuse("rotates an axis of rows");
  const Axis& rows = axes.size() == 3 ? axes[1] : axes[2];
  for (size_t i = 1; i < step.n_inputs(); ++i) {
    if (!step.has(i)) continue;
    if (step.is_row(i)) step.refuse("rotates by what depends on rows");
    const size_t rank = step.walk().at_sizes(step.node().inputs[i]).front().dims().size();
    const bool by_row = i >= first_by_row && step.label(i).kind == Label::Kind::kAuxiliary;
    Axes like = {axes[0], rows};
    if (rank == 3) like.emplace_back();
    const Axes fitted = step.fitted(i, by_row ? like : Axes{});
    if (by_row && !rows.empty() && rank > 1 && fitted[1] != rows) step.refuse(fmt::format("input {} has other rows", i));
    if (by_row && rank == 1) step.refuse("counts positions from a number that varies");
  }
  step.give(0, axes, step.dtype(0));
  step.emit();
}

void rotary(Step& step) { rotate(step, 1); }

}  // namespace

void add_attention_rules(RuleTable& table) {
  table.add(kMicrosoft, "GroupQueryAttention", group_query_attention);
  table.add(kMicrosoft, "MultiHeadAttention", multi_head_attention);
  table.add("Attention", standard_attention);
  table.add("RotaryEmbedding", rotary);
  table.add(kMicrosoft, "RotaryEmbedding", rotary);
}

}  // namespace kvik::native
