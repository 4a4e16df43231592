// activation(a) * b as one op; a and b may be parts of one value.
#include <algorithm>
#include <array>

#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

constexpr std::array kGates = {Unary::kSilu, Unary::kGeluErf, Unary::kGeluTanh, Unary::kGeluQuick,
                               Unary::kRelu, Unary::kSigmoid, Unary::kTanh,     Unary::kSoftplus};

bool match_gate(Rewriter& rewriter, OpIndex i) {
  const Op& op = rewriter.op(i);
  const BinaryOp* mul = op.as<BinaryOp>();
  if (mul == nullptr || mul->op != Binary::kMul || mul->a != Spread::kAll || mul->b != Spread::kAll) return false;
  if (!op.in[0].is_value() || !op.in[1].is_value()) return false;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const Op* activation = rewriter.plan().swallow<UnaryOp>(op.in[side]);
    if (activation == nullptr || !same_rows_of(*activation, op)) continue;
    const Unary kind = activation->as<UnaryOp>()->op;
    if (std::find(kGates.begin(), kGates.end(), kind) == kGates.end()) continue;
    const Input a = activation->in[0], b = op.in[1 - side];
    rewriter.become(i, GateOp{kind}, {a, b});
    return true;
  }
  return false;
}

}  // namespace

int fuse_gate(Plan& plan) { return rewrite_each(plan, "gate", match_gate); }

}  // namespace kvik::native
