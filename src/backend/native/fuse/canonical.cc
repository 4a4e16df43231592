// Rewrites equivalent expressions to one form and removes common subexpressions, so that other fusions have few forms to match.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

// A rule changes or replaces the op and returns whether it did.
using Rule = bool (*)(Rewriter& plan, OpIndex i);

bool alias(Rewriter& plan, OpIndex i, const Input& to) {
  plan.redirect(plan.op(i).out.front(), to);
  return true;
}

// The op that computes `input`, if it is of this kind and has no other reader.
UnaryOp* only_unary(Rewriter& plan, const Input& input, Unary kind) {
  Op* op = plan.plan().swallow<UnaryOp>(input);
  return op != nullptr && op->as<UnaryOp>()->op == kind ? op->as<UnaryOp>() : nullptr;
}

bool commutes(Binary op) {
  return op == Binary::kAdd || op == Binary::kMul || op == Binary::kMin || op == Binary::kMax || op == Binary::kEqual ||
         op == Binary::kNotEqual || op == Binary::kAnd || op == Binary::kOr || op == Binary::kXor;
}

// Whole values first, then parts that are spread, then tables, then constants.
int rank(const Input& input, Spread spread) {
  if (input.is_constant()) return 3;
  if (input.is_table()) return 2;
  return spread == Spread::kAll ? 0 : 1;
}

bool order_operands(Rewriter& plan, OpIndex i) {
  const Op& op = plan.op(i);
  const BinaryOp* binary = op.as<BinaryOp>();
  if (binary == nullptr || !commutes(binary->op) || rank(op.in[0], binary->a) <= rank(op.in[1], binary->b)) return false;
  plan.become(i, BinaryOp{binary->op, binary->b, binary->a, binary->groups}, {op.in[1], op.in[0]});
  return true;
}

std::vector<float> mapped(std::span<const float> values, float (*fn)(float)) {
  std::vector<float> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), fn);
  return result;
}

// Rounding to whole numbers amplifies the last bit of a quotient.
bool is_rounded(const Plan& plan, const Op& op) {
  const std::vector<OpIndex>& consumers = plan.value(op.out.front()).consumers;
  return std::any_of(consumers.begin(), consumers.end(), [&](OpIndex consumer) {
    const UnaryOp* unary = plan.ops[static_cast<size_t>(consumer)].as<UnaryOp>();
    return unary != nullptr && (unary->op == Unary::kRound || unary->op == Unary::kFloor || unary->op == Unary::kCeil);
  });
}

// x - c = x + -c, x / c = x * 1/c.
bool invert_constant(Rewriter& plan, OpIndex i) {
  const Op& op = plan.op(i);
  const BinaryOp* binary = op.as<BinaryOp>();
  if (binary == nullptr || (binary->op != Binary::kSub && binary->op != Binary::kDiv)) return false;
  const std::span<const float> values = plan.plan().floats(op.in[1]);
  if (values.empty() || op.in[0].is_constant()) return false;
  const bool sub = binary->op == Binary::kSub;
  if (!sub && is_rounded(plan.plan(), op)) return false;
  std::vector<float> inverse = sub ? mapped(values, [](float x) { return -x; }) : mapped(values, [](float x) { return 1.0f / x; });
  if (!sub && !std::all_of(inverse.begin(), inverse.end(), [](float x) { return std::isnormal(x); })) return false;
  const Input x = op.in[0];
  plan.become(i, BinaryOp{sub ? Binary::kAdd : Binary::kMul, binary->a, binary->b, binary->groups}, {x, plan.constant(std::move(inverse))});
  return true;
}

// 0 - x, x * -1 and 1 / x have names; x * 1, x + 0 and x ^ 1 are x.
bool name_scalar_operation(Rewriter& plan, OpIndex i) {
  const Op& op = plan.op(i);
  const BinaryOp* binary = op.as<BinaryOp>();
  if (binary == nullptr) return false;
  const Input a = op.in[0], b = op.in[1];
  if (const std::optional<float> left = plan.plan().scalar(a); left && binary->b == Spread::kAll && b.is_value()) {
    const bool negates = binary->op == Binary::kSub && *left == 0.0f, inverts = binary->op == Binary::kDiv && *left == 1.0f;
    if (negates || inverts) plan.become(i, UnaryOp{negates ? Unary::kNeg : Unary::kReciprocal}, {b});
    return negates || inverts;
  }
  const std::optional<float> right = plan.plan().scalar(b);
  if (!right || binary->a != Spread::kAll || !a.is_value()) return false;
  if (binary->op == Binary::kAdd && *right == 0.0f) return alias(plan, i, a);
  if ((binary->op == Binary::kMul || binary->op == Binary::kPow) && *right == 1.0f) return alias(plan, i, a);
  if (binary->op == Binary::kMul && *right == -1.0f) {
    plan.become(i, UnaryOp{Unary::kNeg}, {a});
    return true;
  }
  return false;
}

bool name_power(Rewriter& plan, OpIndex i) {
  const Op& op = plan.op(i);
  const BinaryOp* binary = op.as<BinaryOp>();
  if (binary == nullptr || binary->a != Spread::kAll || !op.in[0].is_value()) return false;
  const Input x = op.in[0];
  if (binary->op == Binary::kMul && op.in[1] == x && binary->b == Spread::kAll) {
    plan.become(i, UnaryOp{Unary::kSquare}, {x});
    return true;
  }
  const std::optional<float> power = plan.plan().scalar(op.in[1]);
  if (binary->op != Binary::kPow || !power) return false;
  Unary named = Unary::kIdentity;
  if (*power == 2.0f) named = Unary::kSquare;
  if (*power == 0.5f) named = Unary::kSqrt;
  if (*power == -0.5f) named = Unary::kRsqrt;
  if (*power == -1.0f) named = Unary::kReciprocal;
  if (named == Unary::kIdentity) return false;
  plan.become(i, UnaryOp{named}, {x});
  return true;
}

// (x op c) op d = x op (c op d), for sums and products.
bool join_constants(Rewriter& plan, OpIndex i) {
  const Op& op = plan.op(i);
  const BinaryOp* outer = op.as<BinaryOp>();
  if (outer == nullptr || (outer->op != Binary::kAdd && outer->op != Binary::kMul) || outer->a != Spread::kAll) return false;
  const Op* made = plan.plan().swallow<BinaryOp>(op.in[0]);
  if (made == nullptr) return false;
  const BinaryOp* inner = made->as<BinaryOp>();
  if (inner->op != outer->op || inner->a != Spread::kAll) return false;
  const std::span<const float> c = plan.plan().floats(made->in[1]), d = plan.plan().floats(op.in[1]);
  if (c.empty() || d.empty()) return false;
  const bool same = c.size() == d.size() && inner->b == outer->b && inner->groups == outer->groups;
  if (!same && c.size() != 1 && d.size() != 1) return false;
  std::vector<float> joined(std::max(c.size(), d.size()));
  for (size_t e = 0; e < joined.size(); ++e) {
    const float left = c[c.size() == 1 ? 0 : e], right = d[d.size() == 1 ? 0 : e];
    joined[e] = outer->op == Binary::kAdd ? left + right : left * right;
  }
  const BinaryOp& wide = c.size() == 1 ? *outer : *inner;
  const Input x = made->in[0];
  plan.become(i, BinaryOp{outer->op, Spread::kAll, wide.b, wide.groups}, {x, plan.constant(std::move(joined))});
  return true;
}

// x + -y = x - y, x - -y = x + y.
bool join_sign(Rewriter& plan, OpIndex i) {
  const Op& op = plan.op(i);
  const BinaryOp* binary = op.as<BinaryOp>();
  if (binary == nullptr || (binary->op != Binary::kAdd && binary->op != Binary::kSub)) return false;
  const BinaryOp args = *binary;
  const Input a = op.in[0], b = op.in[1];
  if (only_unary(plan, b, Unary::kNeg) != nullptr) {
    const Input y = plan.plan().producer(b)->in[0];
    plan.become(i, BinaryOp{args.op == Binary::kAdd ? Binary::kSub : Binary::kAdd, args.a, args.b, args.groups}, {a, y});
    return true;
  }
  if (args.op == Binary::kAdd && b.is_value() && only_unary(plan, a, Unary::kNeg) != nullptr) {
    const Input y = plan.plan().producer(a)->in[0];
    plan.become(i, BinaryOp{Binary::kSub, args.b, args.a, args.groups}, {b, y});
    return true;
  }
  return false;
}

// x / sqrt(y) = x * rsqrt(y).
bool divide_by_root(Rewriter& plan, OpIndex i) {
  const Op& op = plan.op(i);
  const BinaryOp* binary = op.as<BinaryOp>();
  if (binary == nullptr || binary->op != Binary::kDiv || only_unary(plan, op.in[1], Unary::kSqrt) == nullptr) return false;
  const OpIndex root = plan.producer(op.in[1]);
  const BinaryOp args{Binary::kMul, binary->a, binary->b, binary->groups};
  plan.become(root, UnaryOp{Unary::kRsqrt}, plan.op(root).in);
  plan.become(i, args, plan.op(i).in);
  return true;
}

bool join_unary(Rewriter& plan, OpIndex i) {
  const Op& op = plan.op(i);
  const UnaryOp* unary = op.as<UnaryOp>();
  if (unary == nullptr) return false;
  const Input x = op.in[0];
  if (unary->op == Unary::kIdentity && x.is_value()) return alias(plan, i, x);
  if (unary->op == Unary::kNeg && only_unary(plan, x, Unary::kNeg) != nullptr) return alias(plan, i, plan.plan().producer(x)->in[0]);
  const bool root = (unary->op == Unary::kReciprocal && only_unary(plan, x, Unary::kSqrt) != nullptr) ||
                    (unary->op == Unary::kSqrt && only_unary(plan, x, Unary::kReciprocal) != nullptr);
  if (!root) return false;
  const Input y = plan.plan().producer(x)->in[0];
  plan.become(i, UnaryOp{Unary::kRsqrt}, {y});
  return true;
}

// sum(x) / n is the mean, sum(x^2) and l2(x)^2 are the sum of squares.
bool name_reduction(Rewriter& plan, OpIndex i) {
  const Op& op = plan.op(i);
  if (const BinaryOp* binary = op.as<BinaryOp>(); binary != nullptr && binary->op == Binary::kMul && binary->a == Spread::kAll) {
    const Op* made = plan.plan().swallow<ReduceOp>(op.in[0]);
    const std::optional<float> factor = plan.plan().scalar(op.in[1]);
    if (made == nullptr || !factor || made->as<ReduceOp>()->op != Reduce::kSum) return false;
    const int64_t groups = made->as<ReduceOp>()->groups;
    const int64_t n = made->in[0].size / groups;
    if (std::abs(*factor * static_cast<float>(n) - 1.0f) > 1e-6f) return false;
    const Input x = made->in[0];
    plan.become(i, ReduceOp{Reduce::kMean, groups}, {x});
    return true;
  }
  if (const ReduceOp* reduce = op.as<ReduceOp>(); reduce != nullptr && reduce->op == Reduce::kSum) {
    if (only_unary(plan, op.in[0], Unary::kSquare) == nullptr) return false;
    const Input x = plan.plan().producer(op.in[0])->in[0];
    plan.become(i, ReduceOp{Reduce::kSumSquare, reduce->groups}, {x});
    return true;
  }
  const UnaryOp* unary = op.as<UnaryOp>();
  if (unary == nullptr || unary->op != Unary::kSquare) return false;
  const Op* made = plan.plan().swallow<ReduceOp>(op.in[0]);
  if (made == nullptr || made->as<ReduceOp>()->op != Reduce::kL2) return false;
  const ReduceOp args{Reduce::kSumSquare, made->as<ReduceOp>()->groups};
  const Input x = made->in[0];
  plan.become(i, args, {x});
  return true;
}

constexpr Rule kRules[] = {order_operands, invert_constant, name_scalar_operation, name_power, join_constants, join_sign,
                           divide_by_root, join_unary,      name_reduction};

// Ops with equal keys compute the same values.
class OpKey {
 public:
  // Empty for ops that must not be shared.
  static std::string of(const Plan& plan, const Op& op) {
    if (op.out.size() != 1) return {};
    OpKey key;
    key.add(static_cast<int64_t>(op.args.index()));
    key.add(static_cast<int64_t>(op.section));
    key.add(static_cast<int64_t>(op.selection));
    if (!std::visit([&](const auto& args) { return key.add_args(args); }, op.args)) return {};
    for (const Input& input : op.in) key.add_input(plan, input);
    return std::move(key.bytes_);
  }

 private:
  void add(int64_t number) { bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number)); }
  void add(float number) { bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number)); }

  void add_input(const Plan& plan, const Input& input) {
    if (const std::span<const float> values = plan.floats(input); values.size() == 1) {
      add(int64_t{-1});
      add(values.front());
      return;
    }
    for (const int64_t part : {static_cast<int64_t>(input.kind), static_cast<int64_t>(input.index), input.offset, input.size}) add(part);
  }

  bool add_all(std::initializer_list<int64_t> numbers) {
    for (const int64_t number : numbers) add(number);
    return true;
  }

  template <class Args>
  bool add_args(const Args&) {
    return false;
  }
  bool add_args(const UnaryOp& args) { return add_all({static_cast<int64_t>(args.op)}); }
  bool add_args(const BinaryOp& args) {
    return add_all({static_cast<int64_t>(args.op), static_cast<int64_t>(args.a), static_cast<int64_t>(args.b), args.groups});
  }
  bool add_args(const ReduceOp& args) { return add_all({static_cast<int64_t>(args.op), args.groups}); }
  bool add_args(const SoftmaxOp& args) { return add_all({args.groups, args.log ? 1 : 0}); }
  bool add_args(const Embed& args) { return add_all({args.weight}); }
  bool add_args(const ClipOp& args) {
    add(args.low);
    add(args.high);
    return true;
  }
  bool add_args(const NormOp& args) {
    add(args.epsilon);
    return add_all({args.centered ? 1 : 0, args.groups});
  }
  bool add_args(const Matmul& args) {
    for (const int weight : args.weights) add(static_cast<int64_t>(weight));
    return add_all({args.shared ? 1 : 0});
  }
  bool add_args(const Move& args) {
    for (const Move::Run& run : args.runs) add_all({run.input, run.from, run.to, run.count});
    return true;
  }

  std::string bytes_;
};

constexpr int kMostChanges = 16;  // of one op; each rule brings it closer to its final form

bool apply_rules(Rewriter& plan, OpIndex i) {
  for (const Rule rule : kRules) {
    if (plan.is_dead(i)) return false;
    if (rule(plan, i)) return !plan.is_dead(i);
  }
  return false;
}

}  // namespace

int fuse_canonical(Plan& target) {
  Rewriter plan(target, "canonical");
  std::unordered_map<std::string, ValueIndex> made;
  for (OpIndex i = 0; i < plan.size(); ++i) {
    if (plan.is_dead(i)) continue;
    const Input unchanged = plan.op(i).out.empty() ? Input{} : target.whole(plan.op(i).out.front());
    for (int change = 0; change < kMostChanges && apply_rules(plan, i); ++change) plan.count();
    if (plan.is_dead(i)) {
      plan.count();
      continue;
    }
    const std::string key = OpKey::of(target, plan.op(i));
    if (key.empty()) continue;
    const auto [known, fresh] = made.try_emplace(key, unchanged.index);
    // A rule may have changed an op that was recorded here.
    const OpIndex first = target.value(known->second).producer;
    if (fresh || plan.is_dead(first) || OpKey::of(target, plan.op(first)) != key) {
      known->second = unchanged.index;
      continue;
    }
    plan.redirect(unchanged.index, target.whole(known->second));
    plan.count();
  }
  return plan.finish();
}

}  // namespace kvik::native
