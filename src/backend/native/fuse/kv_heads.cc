// If keys and values are repeated for several heads before they are cached, they are cached once, and heads are mapped to them.

#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

// Heads of `size` elements that are copies of the heads of another value.
struct Heads {
  Input source;               // without repetitions
  std::vector<int64_t> from;  // which of the source's heads each one is
};

std::optional<Heads> repeated_heads(const Plan& plan, const Input& input, int64_t n_heads, int64_t size) {
  const Op* op = plan.producer(input);
  const Move* move = op == nullptr ? nullptr : op->as<Move>();
  if (move == nullptr || op->in.size() != 1 || !op->in[0].is_value() || input.size != n_heads * size) return {};
  std::vector<int64_t> element(static_cast<size_t>(input.size));
  for (const Move::Run& run : move->runs) {
    for (int64_t i = 0; i < run.count; ++i) element[static_cast<size_t>(run.to + i)] = run.from + i;
  }
  Heads heads{op->in[0], {}};
  for (int64_t h = 0; h < n_heads; ++h) {
    const int64_t first = element[static_cast<size_t>(h * size)];
    if (first % size != 0) return {};
    for (int64_t i = 0; i < size; ++i) {
      if (element[static_cast<size_t>(h * size + i)] != first + i) return {};
    }
    heads.from.push_back(first / size);
  }
  if (heads.source.size % size != 0 || heads.source.size >= input.size) return {};
  return heads;
}

bool match_kv_heads(Rewriter& rewriter, OpIndex i) {
  Plan& plan = rewriter.plan();
  const AppendOp* append = rewriter.op(i).as<AppendOp>();
  if (append == nullptr) return false;
  AttentionSpec& attend = plan.attends[static_cast<size_t>(append->attend)];
  const std::optional<Heads> k = repeated_heads(plan, rewriter.op(i).in[0], attend.n_kv_heads, attend.key_dim);
  const std::optional<Heads> v = repeated_heads(plan, rewriter.op(i).in[1], attend.n_kv_heads, attend.value_dim);
  if (!k || !v || k->from != v->from) return false;
  const int64_t n_heads = k->source.size / attend.key_dim, repeat = attend.n_heads / attend.n_kv_heads;
  if (v->source.size / attend.value_dim != n_heads) return false;
  std::vector<int32_t> kv_head_of;
  bool neighbors = attend.n_heads % n_heads == 0;
  for (int64_t h = 0; h < attend.n_heads; ++h) {
    const int64_t before = attend.kv_head_of.empty() ? h / repeat : attend.kv_head_of[static_cast<size_t>(h)];
    kv_head_of.push_back(static_cast<int32_t>(k->from[static_cast<size_t>(before)]));
    neighbors = neighbors && kv_head_of.back() == h / (attend.n_heads / n_heads);
  }
  attend.n_kv_heads = n_heads;
  attend.kv_head_of = neighbors ? std::vector<int32_t>() : std::move(kv_head_of);
  const Input values = v->source;
  rewriter.set_input(i, 0, k->source);
  rewriter.set_input(i, 1, values);
  return true;
}

}  // namespace

int fuse_kv_heads(Plan& plan) { return rewrite_each(plan, "kv_heads", match_kv_heads); }

}  // namespace kvik::native
