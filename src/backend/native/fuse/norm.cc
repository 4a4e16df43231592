// Normalizations written as primitive operations, over the whole row or over groups of it:
//   (x - mean(x)) * rsqrt(mean((x - mean(x))^2) + epsilon) * weight + bias, with or without the mean, weight and bias.
// With a sum instead of the mean of squares (an L2 norm), the weight includes the factor.
#include <algorithm>
#include <cmath>

#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

constexpr size_t kMostFactors = 6;

// The factors of a product of equally large rows: constants apart from the others.
struct Product {
  struct Factor {
    Input input;
    Spread spread = Spread::kAll;
    int64_t groups = 1;
  };
  std::vector<Factor> values, constants;

  size_t size() const { return values.size() + constants.size(); }
};

void collect_factors(Plan& plan, const Op& op, size_t depth, Product& product) {
  const BinaryOp& mul = *op.as<BinaryOp>();
  const Spread spreads[] = {mul.a, mul.b};
  for (size_t side = 0; side < 2; ++side) {
    const Input& input = op.in[side];
    Op* made = spreads[side] == Spread::kAll && depth + product.size() < kMostFactors ? plan.swallow<BinaryOp>(input) : nullptr;
    if (made != nullptr && made->as<BinaryOp>()->op == Binary::kMul && same_rows_of(*made, op)) {
      collect_factors(plan, *made, depth + 1, product);
    } else if (input.is_constant()) {
      product.constants.push_back({input, spreads[side], mul.groups});
    } else {
      product.values.push_back({input, spreads[side], mul.groups});
    }
  }
}

// It may have other readers: norms of one value share their first ops, which are removed with the last of them.
template <class T>
const Op* made_by(const Plan& plan, const Input& input) {
  const Op* op = plan.producer(input);
  return op != nullptr && op->as<T>() != nullptr ? op : nullptr;
}

// value = factor * sum over each group of x^2.
struct SquareSum {
  Input x;
  int64_t groups = 1;
  float factor = 1.0f;
};

std::optional<SquareSum> square_sum(const Plan& plan, const Input& input) {
  if (const Op* scaled = made_by<BinaryOp>(plan, input)) {
    const BinaryOp& mul = *scaled->as<BinaryOp>();
    const std::optional<float> factor = plan.scalar(scaled->in[1]);
    if (mul.op != Binary::kMul || mul.a != Spread::kAll || !factor || !(*factor > 0.0f)) return {};
    if (made_by<ReduceOp>(plan, scaled->in[0]) == nullptr) return {};
    std::optional<SquareSum> sum = square_sum(plan, scaled->in[0]);
    if (sum) sum->factor *= *factor;
    return sum;
  }
  const Op* made = made_by<ReduceOp>(plan, input);
  if (made == nullptr) return {};
  const ReduceOp& reduce = *made->as<ReduceOp>();
  const int64_t n = made->in[0].size / reduce.groups;
  if (reduce.op == Reduce::kSumSquare) return SquareSum{made->in[0], reduce.groups, 1.0f};
  if (reduce.op != Reduce::kMean && reduce.op != Reduce::kSum) return {};
  const Op* square = made_by<UnaryOp>(plan, made->in[0]);
  if (square == nullptr || square->as<UnaryOp>()->op != Unary::kSquare) return {};
  return SquareSum{square->in[0], reduce.groups, reduce.op == Reduce::kMean ? 1.0f / static_cast<float>(n) : 1.0f};
}

// rsqrt(square sum + epsilon)
struct InverseRoot {
  SquareSum sum;
  float epsilon = 0.0f;
};

// Several norms may share a root. Any other reader would keep it alive, and nothing would be saved.
bool only_multiplies(const Plan& plan, ValueIndex value) {
  const std::vector<OpIndex>& consumers = plan.value(value).consumers;
  return !(plan.output.is_value() && plan.output.index == value) && std::all_of(consumers.begin(), consumers.end(), [&](OpIndex consumer) {
    const BinaryOp* binary = plan.ops[static_cast<size_t>(consumer)].as<BinaryOp>();
    return binary != nullptr && binary->op == Binary::kMul;
  });
}

std::optional<InverseRoot> inverse_root(const Plan& plan, const Input& input) {
  const Op* root = made_by<UnaryOp>(plan, input);
  if (root == nullptr || root->as<UnaryOp>()->op != Unary::kRsqrt) return {};
  if (!only_multiplies(plan, input.index)) return {};
  Input inside = root->in[0];
  InverseRoot found;
  if (const Op* sum = made_by<BinaryOp>(plan, inside); sum != nullptr && sum->as<BinaryOp>()->op == Binary::kAdd) {
    const std::optional<float> epsilon = plan.scalar(sum->in[1]);
    if (!epsilon || sum->as<BinaryOp>()->a != Spread::kAll || !(*epsilon >= 0.0f)) return {};
    found.epsilon = *epsilon;
    inside = sum->in[0];
  }
  const std::optional<SquareSum> sum = square_sum(plan, inside);
  if (!sum) return {};
  found.sum = *sum;
  return found;
}

bool spreads_over(const Input& input, Spread spread, int64_t spread_groups, int64_t groups) {
  if (input.size != groups) return false;
  return groups == 1 ? spread == Spread::kOne || spread == Spread::kPerGroup : spread == Spread::kPerGroup && spread_groups == groups;
}

// x if the value is x - mean(x), by groups.
std::optional<Input> centered(const Plan& plan, const Input& input, int64_t groups) {
  const Op* op = plan.producer(input);
  const BinaryOp* sub = op == nullptr ? nullptr : op->as<BinaryOp>();
  if (sub == nullptr || sub->op != Binary::kSub || sub->a != Spread::kAll) return {};
  if (!spreads_over(op->in[1], sub->b, sub->groups, groups)) return {};
  const Op* mean = plan.producer(op->in[1]);
  const ReduceOp* reduce = mean == nullptr ? nullptr : mean->as<ReduceOp>();
  if (reduce == nullptr || reduce->op != Reduce::kMean || reduce->groups != groups || mean->in[0] != op->in[0]) return {};
  return op->in[0];
}

// The product of the constants for one group; empty if it differs between groups.
std::vector<float> joined_weight(const Plan& plan, const Product& product, int64_t groups, int64_t group) {
  std::vector<float> weight(static_cast<size_t>(group), 1.0f);
  for (const Product::Factor& factor : product.constants) {
    const bool fits = factor.spread == Spread::kOne || (factor.spread == Spread::kEvery && factor.groups == groups) ||
                      (factor.spread == Spread::kAll && groups == 1) || plan.scalar(factor.input).has_value();
    const std::vector<float> values = fits ? per_group(plan, factor.input, factor.spread, group) : std::vector<float>();
    if (values.empty()) return {};
    for (size_t i = 0; i < weight.size(); ++i) weight[i] *= values[i];
  }
  return weight;
}

bool match_norm(Rewriter& rewriter, OpIndex i) {
  Plan& plan = rewriter.plan();
  const BinaryOp* mul = rewriter.op(i).as<BinaryOp>();
  if (mul == nullptr || mul->op != Binary::kMul) return false;
  Product product;
  collect_factors(plan, rewriter.op(i), 0, product);
  if (product.values.size() != 2) return false;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const Product::Factor &x = product.values[side], &root = product.values[1 - side];
    const std::optional<InverseRoot> found = inverse_root(plan, root.input);
    if (!found || x.spread != Spread::kAll || found->sum.x != x.input) continue;
    const int64_t groups = found->sum.groups, group = x.input.size / groups;
    if (!spreads_over(root.input, root.spread, root.groups, groups)) continue;
    std::vector<float> weight = joined_weight(plan, product, groups, group);
    if (weight.empty()) continue;
    const float ratio = found->sum.factor * static_cast<float>(group);  // 1 for a mean
    const bool is_mean = std::abs(ratio - 1.0f) < 1e-5f;
    for (float& w : weight) w = is_mean ? w : w / std::sqrt(ratio);
    const bool weighted = !is_mean || !product.constants.empty();
    const std::optional<Input> inner = centered(plan, x.input, groups);
    const NormOp norm{inner.has_value(), is_mean ? found->epsilon : found->epsilon / ratio, groups};
    const Input from = inner ? *inner : x.input;
    rewriter.become(i, norm, {from, weighted ? rewriter.constant(std::move(weight)) : Input{}, Input{}});
    return true;
  }
  return false;
}

std::vector<float> as_vector(const Plan& plan, const Input& input, int64_t n, float otherwise) {
  if (!input) return std::vector<float>(static_cast<size_t>(n), otherwise);
  const std::span<const float> values = plan.floats(input);
  return {values.begin(), values.end()};
}

// If all readers of a norm multiply it by constants or add them, each may get its own norm.
bool only_affine(const Plan& plan, ValueIndex value) {
  const std::vector<OpIndex>& consumers = plan.value(value).consumers;
  return !(plan.output.is_value() && plan.output.index == value) && std::all_of(consumers.begin(), consumers.end(), [&](OpIndex consumer) {
    const Op& op = plan.ops[static_cast<size_t>(consumer)];
    return op.as<BinaryOp>() != nullptr && op.in[1].is_constant();
  });
}

// norm(x) * c and norm(x) + c: the norm's own weight and bias.
bool join_affine(Rewriter& rewriter, OpIndex i) {
  Plan& plan = rewriter.plan();
  const Op& op = rewriter.op(i);
  const BinaryOp* binary = op.as<BinaryOp>();
  if (binary == nullptr || (binary->op != Binary::kMul && binary->op != Binary::kAdd) || binary->a != Spread::kAll) return false;
  const Op* made = made_by<NormOp>(plan, op.in[0]);
  if (made == nullptr || !only_affine(plan, op.in[0].index)) return false;
  const NormOp norm = *made->as<NormOp>();
  const int64_t group = made->in[0].size / norm.groups;
  Product constant;
  constant.constants.push_back({op.in[1], binary->b, binary->groups});
  if (!op.in[1].is_constant()) return false;
  const std::vector<float> values = joined_weight(plan, constant, norm.groups, group);
  if (values.empty()) return false;
  const bool scales = binary->op == Binary::kMul;
  const Input x = made->in[0], old_weight = made->in[1], old_bias = made->in[2];
  std::vector<float> weight = as_vector(plan, old_weight, group, 1.0f), bias = as_vector(plan, old_bias, group, 0.0f);
  for (size_t e = 0; e < values.size(); ++e) {
    if (scales) weight[e] *= values[e];
    bias[e] = scales ? bias[e] * values[e] : bias[e] + values[e];
  }
  const Input new_weight = scales ? rewriter.constant(std::move(weight)) : old_weight;
  const Input new_bias = !scales || old_bias ? rewriter.constant(std::move(bias)) : Input{};
  rewriter.become(i, norm, {x, new_weight, new_bias});
  return true;
}

}  // namespace

int fuse_norm(Plan& target) {
  Rewriter plan(target, "norm");
  // Outermost products first, so that a weight is found together with its norm.
  for (OpIndex i = plan.size(); i-- > 0;) {
    if (!plan.is_dead(i) && match_norm(plan, i)) plan.count();
  }
  for (OpIndex i = 0; i < plan.size(); ++i) {
    if (!plan.is_dead(i)) join_affine(plan, i);
  }
  return plan.finish();
}

}  // namespace kvik::native
