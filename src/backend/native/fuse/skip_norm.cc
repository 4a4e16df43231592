// The sum with a residual and its norm become one op.
#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

bool match_skip_norm(Rewriter& rewriter, OpIndex i) {
  Plan& plan = rewriter.plan();
  const Op& norm_op = rewriter.op(i);
  const NormOp* norm = norm_op.as<NormOp>();
  if (norm == nullptr || norm->groups != 1) return false;
  const OpIndex at = rewriter.producer(norm_op.in[0]);
  if (at == kNoIndex) return false;
  const Op& sum_op = rewriter.op(at);
  const BinaryOp* sum = sum_op.as<BinaryOp>();
  if (sum == nullptr || sum->op != Binary::kAdd || sum->a != Spread::kAll || sum->b != Spread::kAll) return false;
  if (!sum_op.in[0].is_value() || !sum_op.in[1].is_value() || !same_rows_of(sum_op, norm_op)) return false;
  const NormOp args = *norm;
  const ValueIndex normed = norm_op.out.front(), added = sum_op.out.front();
  const Input weight = norm_op.in[1], bias = norm_op.in[2], x = sum_op.in[0], skip = sum_op.in[1];
  // The op takes the place of the sum, because readers of the sum may precede the norm.
  const bool wanted = !plan.has_one_consumer(added);
  const PlanValue like = plan.value(normed);
  const ValueIndex first = rewriter.widen(at, plan.value(added).size);
  plan.values[static_cast<size_t>(first)].name = like.name;
  rewriter.become(at, SkipNormOp{args}, {x, skip, Input{}, weight, bias});
  if (wanted) rewriter.add_output(at, added);
  rewriter.redirect(normed, plan.whole(first));
  return true;
}

}  // namespace

int fuse_skip_norm(Plan& plan) { return rewrite_each(plan, "skip_norm", match_skip_norm); }

}  // namespace kvik::native
