// Products of one row and several matrices become one product with the concatenated matrices: queries, keys and values; gate and up
// projection of a feed-forward layer.
#include <map>
#include <tuple>

#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

constexpr size_t kMostProducts = 8;  // of one product: its outputs are in memory at the same time

using MatmulKey = std::tuple<ValueIndex, int64_t, int64_t, Op::Section, ValueIndex>;  // x, rows

std::vector<int> weight_uses(const Plan& plan) {
  std::vector<int> uses(plan.weights.size());
  for (const Op& op : plan.ops) {
    if (const auto* embed = op.as<Embed>()) ++uses[static_cast<size_t>(embed->weight)];
    if (const auto* matmul = op.as<Matmul>()) {
      for (const int weight : matmul->weights) ++uses[static_cast<size_t>(weight)];
    }
  }
  return uses;
}

bool can_merge(const Plan& plan, const Op& op, const std::vector<int>& uses) {
  const Matmul* matmul = op.as<Matmul>();
  if (matmul == nullptr || matmul->weights.size() != 1 || !op.in[0].is_value()) return false;
  const auto weight = static_cast<size_t>(matmul->weights.front());
  return uses[weight] == 1 && op.in[0].size == plan.weights[weight].k && (op.in.size() < 2 || !op.in[1] || op.in[1].is_constant());
}

PlanWeight& weight_of(Rewriter& rewriter, OpIndex i) {
  return rewriter.plan().weights[static_cast<size_t>(rewriter.op(i).as<Matmul>()->weights.front())];
}

Input merged_bias(Rewriter& rewriter, std::span<const OpIndex> ops) {
  std::vector<float> bias;
  bool any = false;
  for (const OpIndex i : ops) {
    const Op& op = rewriter.op(i);
    const bool has = op.in.size() > 1 && op.in[1];
    const std::span<const float> own = has ? rewriter.plan().floats(op.in[1]) : std::span<const float>();
    const auto n = static_cast<size_t>(weight_of(rewriter, i).n);
    any = any || has;
    bias.insert(bias.end(), own.begin(), own.end());
    if (!has) bias.resize(bias.size() + n, 0.0f);
  }
  return any ? rewriter.constant(std::move(bias)) : Input{};
}

void merge(Rewriter& rewriter, std::span<const OpIndex> ops, PlanWeight weight) {
  Plan& plan = rewriter.plan();
  const OpIndex at = ops.front();
  const Input x = rewriter.op(at).in[0], bias = merged_bias(rewriter, ops);
  std::vector<std::pair<ValueIndex, int64_t>> places;
  int64_t size = 0;
  for (const OpIndex i : ops) {
    places.emplace_back(rewriter.op(i).out.front(), size);
    size += weight_of(rewriter, i).n;
  }
  plan.weights.push_back(std::move(weight));
  const ValueIndex all = rewriter.widen(at, size);
  rewriter.become(at, Matmul{{static_cast<int>(plan.weights.size() - 1)}}, {x, bias});
  for (const auto& [value, offset] : places) rewriter.redirect(value, {Input::Kind::kValue, all, offset, plan.value(value).size});
  rewriter.count();
}

void merge_alike(Rewriter& rewriter, std::span<const OpIndex> ops) {
  for (size_t first = 0, next = 0; first < ops.size(); first = next) {
    PlanWeight weight = weight_of(rewriter, ops[first]);
    for (next = first + 1; next < ops.size() && next - first < kMostProducts; ++next) {
      const PlanWeight& right = weight_of(rewriter, ops[next]);
      if (!can_pack_together(rewriter.plan(), weight, right)) break;
      weight.parts.insert(weight.parts.end(), right.parts.begin(), right.parts.end());
      weight.n += right.n;
    }
    if (next - first > 1) merge(rewriter, ops.subspan(first, next - first), std::move(weight));
  }
}

}  // namespace

int fuse_matmul_merge(Plan& target) {
  Rewriter plan(target, "matmul_merge");
  const std::vector<int> uses = weight_uses(target);
  std::map<MatmulKey, std::vector<OpIndex>> alike;
  for (OpIndex i = 0; i < plan.size(); ++i) {
    const Op& op = plan.op(i);
    if (!can_merge(target, op, uses)) continue;
    alike[{op.in[0].index, op.in[0].offset, op.in[0].size, op.section, op.selection}].push_back(i);
  }
  for (const auto& [key, ops] : alike) merge_alike(plan, ops);
  return plan.finish();
}

}  // namespace kvik::native
