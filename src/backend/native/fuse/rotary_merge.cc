// Rotations of adjacent queries and keys by the same angles become one op.
#include <algorithm>
#include <map>
#include <tuple>

#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

using AngleInputs = std::tuple<int32_t, int64_t, int32_t, int64_t>;  // tables of cosines and sines, offsets in them
using RotaryKey = std::tuple<ValueIndex, AngleInputs, int64_t, int64_t, bool, Op::Section, ValueIndex>;

RotaryKey key_of(const Op& op) {
  const RotaryOp& rotary = *op.as<RotaryOp>();
  const AngleInputs angles{op.in[1].index, op.in[1].offset, op.in[2].index, op.in[2].offset};
  return {op.in[0].index, angles, rotary.head_dim, rotary.n_pairs, rotary.interleaved, op.section, op.selection};
}

// Operations [first, last) read one part after another.
void merge(Rewriter& rewriter, std::span<const OpIndex> parts) {
  const OpIndex at = *std::min_element(parts.begin(), parts.end());
  RotaryOp rotary = *rewriter.op(at).as<RotaryOp>();
  std::vector<Input> in = rewriter.op(at).in;
  in[0] = rewriter.op(parts.front()).in[0];
  in[0].size = 0;
  std::vector<std::pair<ValueIndex, int64_t>> places;
  for (const OpIndex part : parts) {
    places.emplace_back(rewriter.op(part).out.front(), in[0].size);
    in[0].size += rewriter.op(part).in[0].size;
  }
  rotary.n_heads = in[0].size / rotary.head_dim;
  const ValueIndex all = rewriter.widen(at, in[0].size);
  rewriter.become(at, rotary, std::move(in));
  for (const auto& [value, offset] : places) {
    const int64_t size = rewriter.plan().value(value).size;
    rewriter.redirect(value, {Input::Kind::kValue, all, offset, size});
  }
  rewriter.count();
}

}  // namespace

int fuse_rotary_merge(Plan& target) {
  Rewriter plan(target, "rotary_merge");
  std::map<RotaryKey, std::vector<OpIndex>> alike;
  for (OpIndex i = 0; i < plan.size(); ++i) {
    const Op& op = plan.op(i);
    if (op.as<RotaryOp>() != nullptr && op.in[0].is_value() && op.in[1].is_table() && op.in[2].is_table()) alike[key_of(op)].push_back(i);
  }
  for (auto& [key, ops] : alike) {
    std::sort(ops.begin(), ops.end(), [&](OpIndex a, OpIndex b) { return plan.op(a).in[0].offset < plan.op(b).in[0].offset; });
    for (size_t first = 0, next = 0; first < ops.size(); first = next) {
      for (next = first + 1; next < ops.size(); ++next) {
        const Input& before = plan.op(ops[next - 1]).in[0];
        if (before.offset + before.size != plan.op(ops[next]).in[0].offset) break;
      }
      if (next - first > 1) merge(plan, std::span(ops).subspan(first, next - first));
    }
  }
  return plan.finish();
}

}  // namespace kvik::native
