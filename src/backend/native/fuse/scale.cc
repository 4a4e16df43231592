// A constant factor of queries or keys is merged into the scale of their attention: products are linear, and so are moves and rotations
// in between.
#include <cmath>

#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

// Attentions and appends that name an attention; a scale can move only if there is one of each.
struct Users {
  int n_attends = 0, n_appends = 0;
};

bool fold(Rewriter& rewriter, AttentionSpec& attend, Input x) {
  Plan& plan = rewriter.plan();
  for (;;) {
    Op* op = plan.producer(x);
    if (op == nullptr || !plan.has_one_consumer(x.index)) return false;
    if (op->as<RotaryOp>() != nullptr || (op->as<Move>() != nullptr && op->in.size() == 1)) {
      x = op->in[0];
      continue;
    }
    const BinaryOp* mul = op->as<BinaryOp>();
    const std::optional<float> factor = mul == nullptr ? std::nullopt : plan.scalar(op->in[1]);
    if (!factor || mul->op != Binary::kMul || mul->a != Spread::kAll || !op->in[0].is_value()) return false;
    const float scale = attend.scale * *factor;
    if (!std::isnormal(scale)) return false;
    attend.scale = scale;
    rewriter.redirect(x.index, op->in[0]);
    return true;
  }
}

}  // namespace

int fuse_scale(Plan& target) {
  Rewriter plan(target, "scale");
  std::vector<Users> users(target.attends.size());
  for (const Op& op : target.ops) {
    if (const AttendOp* attend = op.as<AttendOp>()) ++users[static_cast<size_t>(attend->attend)].n_attends;
    if (const AppendOp* append = op.as<AppendOp>()) ++users[static_cast<size_t>(append->attend)].n_appends;
  }
  for (OpIndex i = 0; i < plan.size(); ++i) {
    if (plan.is_dead(i)) continue;
    const AttendOp* attend = plan.op(i).as<AttendOp>();
    const AppendOp* append = plan.op(i).as<AppendOp>();
    if (attend == nullptr && append == nullptr) continue;
    const auto which = static_cast<size_t>(attend != nullptr ? attend->attend : append->attend);
    if (users[which].n_attends != 1 || users[which].n_appends > 1) continue;
    if (fold(plan, target.attends[which], plan.op(i).in[0])) plan.count();
  }
  return plan.finish();
}

}  // namespace kvik::native
