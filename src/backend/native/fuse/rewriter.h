#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "backend/native/graph/rounding.h"
#include "backend/native/plan/plan.h"

namespace kvik::native {

// Changes ops of a plan and keeps producers and consumers up to date, so that a pass can query them at any time. An op that has become
// unused is emptied at once (Rewriter::is_dead) and removed by finish(). Op indices are stable until then.
class Rewriter {
 public:
  Rewriter(Plan& plan, std::string_view pass);  // the plan must be indexed and outlive the rewriter

  Plan& plan() { return plan_; }
  OpIndex size() const { return static_cast<OpIndex>(plan_.ops.size()); }
  Op& op(OpIndex i) { return plan_.ops[static_cast<size_t>(i)]; }
  const Op& op(OpIndex i) const { return plan_.ops[static_cast<size_t>(i)]; }
  bool is_dead(OpIndex i) const { return dead_[static_cast<size_t>(i)]; }
  OpIndex producer(const Input& input) const;  // the producer of the whole input; kNoIndex for parts, constants, tables and given values

  // Replaces the op by another one with the same outputs.
  void become(OpIndex i, Op::Args args, std::vector<Input> in);
  void set_input(OpIndex i, size_t input, const Input& to);
  // Makes all readers of `from` read `to`, which must be computed earlier.
  void redirect(ValueIndex from, const Input& to);
  // Gives the op a new output value of `size` elements; readers of the old one must be redirected to a part of it.
  ValueIndex widen(OpIndex i, int64_t size);
  // A new value with the same properties as output 0.
  ValueIndex add_output(OpIndex i, ValueIndex made);
  // Inserts an op with one output before op i, in the same section and for the same rows.
  Input insert_before(OpIndex i, Op::Args args, std::vector<Input> in, int64_t size);

  Input constant(std::vector<float> values);
  Input scalar(float value) { return constant({value}); }

  void count() { ++count_; }
  // Removes dead ops, inserts new ones, leaves the plan indexed. Returns the number of counted ops.
  int finish();

 private:
  void forget(OpIndex i, ValueIndex value);  // no longer consumes it; ops without consumers become dead
  void kill_if_unused(OpIndex i);

  Plan& plan_;
  std::string_view pass_;
  std::vector<bool> dead_;
  std::vector<std::pair<OpIndex, Op>> inserted_;  // before this operation
  std::unordered_set<ValueIndex> pinned_;         // read by those
  int count_ = 0;
};

// Calls `match` for every op that is not dead, in forward or reverse order, and leaves the plan indexed. `match` changes the plan around op
// i if it matches and returns whether it did. Returns the number of matches.
using Match = std::function<bool(Rewriter&, OpIndex)>;
int rewrite_each(Plan& plan, std::string_view pass, const Match& match);
int rewrite_each_from_end(Plan& plan, std::string_view pass, const Match& match);

// The element of an operand that is combined with element i of `n`.
int64_t spread_element(Spread spread, int64_t groups, int64_t n, int64_t i);

// Whether two ops are for the same rows, so that their values can be joined.
bool same_rows_of(const Op& a, const Op& b);

// The node of a reference op if it has this operator, else null.
const onnx::Node* reference_node(const Plan& plan, const Op* op, std::string_view name);

// The mapping of a QuantizeLinear or DequantizeLinear, if its scale and zero point are constant and the same for all elements. Without a
// zero point, codes have type `otherwise`.
std::optional<CodeGrid> grid_of(const Plan& plan, const Op& op, DType otherwise);

// The elements of a constant operand that are combined with one group of `group` elements, if they are the same for every group; else
// empty.
std::vector<float> per_group(const Plan& plan, const Input& input, Spread spread, int64_t group);

}  // namespace kvik::native
