// A constant that is added to a product becomes its bias.
#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

bool match_matmul_bias(Rewriter& rewriter, OpIndex i) {
  Plan& plan = rewriter.plan();
  const Op& op = rewriter.op(i);
  const BinaryOp* add = op.as<BinaryOp>();
  if (add == nullptr || add->op != Binary::kAdd || add->a != Spread::kAll || !op.in[1].is_constant()) return false;
  const Op* product = plan.swallow<Matmul>(op.in[0]);
  if (product == nullptr || !same_rows_of(*product, op)) return false;
  const Matmul matmul = *product->as<Matmul>();
  const int64_t n = plan.weights[static_cast<size_t>(matmul.weights.front())].n;
  // Every group of n columns must have the same bias.
  const bool one = op.in[0].size == n;
  if (!one && add->b == Spread::kEvery && add->groups != op.in[0].size / n) return false;
  std::vector<float> bias = per_group(plan, op.in[1], add->b, n);
  if (bias.empty()) return false;
  if (product->in.size() > 1 && product->in[1]) {
    const std::span<const float> before = plan.floats(product->in[1]);
    if (before.size() != bias.size()) return false;
    for (size_t e = 0; e < bias.size(); ++e) bias[e] += before[e];
  }
  const Input x = product->in[0];
  rewriter.become(i, matmul, {x, rewriter.constant(std::move(bias))});
  return true;
}

}  // namespace

int fuse_matmul_bias(Plan& plan) { return rewrite_each(plan, "matmul_bias", match_matmul_bias); }

}  // namespace kvik::native
