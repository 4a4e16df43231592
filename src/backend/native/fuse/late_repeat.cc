// Elementwise ops are moved before ops that repeat elements: the same numbers, computed fewer times. Keys that a static quantizer rounds
// after their heads were repeated are then repeated last, and kv_heads keeps each once.
#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

// Each element of the result depends on the same element of in[0], and on nothing else of the row.
bool is_elementwise(const Op& op) {
  if (op.as<UnaryOp>() != nullptr || op.as<ClipOp>() != nullptr) return true;
  const BinaryOp* binary = op.as<BinaryOp>();
  return binary != nullptr && binary->a == Spread::kAll && binary->b == Spread::kOne && op.in[1].is_constant();
}

bool match_late_repeat(Rewriter& rewriter, OpIndex i) {
  const Op& op = rewriter.op(i);
  if (!is_elementwise(op)) return false;
  const Op* repeat = rewriter.plan().swallow<Move>(op.in[0]);
  if (repeat == nullptr || repeat->in.size() != 1 || !repeat->in[0].is_value() || !same_rows_of(*repeat, op)) return false;
  if (repeat->in[0].size >= op.in[0].size) return false;  // nothing is repeated
  Move runs = *repeat->as<Move>();
  std::vector<Input> in = op.in;
  in[0] = repeat->in[0];
  const Input once = rewriter.insert_before(i, op.args, in, in[0].size);
  rewriter.become(i, std::move(runs), {once});
  return true;
}

}  // namespace

int fuse_late_repeat(Plan& plan) { return rewrite_each(plan, "late_repeat", match_late_repeat); }

}  // namespace kvik::native
