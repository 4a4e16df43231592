#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "backend/native/graph/rounding.h"
#include "backend/native/plan/plan.h"

namespace kvik::native {

// Changes operations of a plan while producers and consumers stay right, so that a pass may ask for them at any time. An operation that
// nobody needs any more is emptied at once (Rewriter::is_dead) and taken out by finish(). Numbers of operations are stable until then.
class Rewriter {
 public:
  Rewriter(Plan& plan, std::string_view pass);  // the plan is indexed and outlives the rewriter

  Plan& plan() { return plan_; }
  OpIndex size() const { return static_cast<OpIndex>(plan_.ops.size()); }
  Op& op(OpIndex i) { return plan_.ops[static_cast<size_t>(i)]; }
  const Op& op(OpIndex i) const { return plan_.ops[static_cast<size_t>(i)]; }
  bool is_dead(OpIndex i) const { return dead_[static_cast<size_t>(i)]; }
  OpIndex producer(const Input& input) const;  // of all of what is read; kNoIndex for parts, constants, tables and given values

  // The operation becomes another one with the same outputs.
  void become(OpIndex i, Op::Args args, std::vector<Input> in);
  void set_input(OpIndex i, size_t input, const Input& to);
  // Whoever read `from` reads `to`, which is made before.
  void redirect(ValueIndex from, const Input& to);
  // The operation makes one value of `size` elements from now on; the old one has to be redirected to a part of it.
  ValueIndex widen(OpIndex i, int64_t size);
  // A value beside output 0, like it.
  ValueIndex add_output(OpIndex i, ValueIndex made);
  // A new operation with one output before operation i, as its work: in its section and for its rows.
  Input insert_before(OpIndex i, Op::Args args, std::vector<Input> in, int64_t size);

  Input constant(std::vector<float> values);
  Input scalar(float value) { return constant({value}); }

  void count() { ++count_; }
  // Takes out what is dead, puts in what is new, leaves the plan indexed. Gives how many were counted.
  int finish();

 private:
  void forget(OpIndex i, ValueIndex value);  // is not a consumer of it any more; what has none left dies
  void kill_if_unused(OpIndex i);

  Plan& plan_;
  std::string_view pass_;
  std::vector<bool> dead_;
  std::vector<std::pair<OpIndex, Op>> inserted_;  // before this operation
  std::unordered_set<ValueIndex> pinned_;         // read by those
  int count_ = 0;
};

// Tries `match` on every operation that is not dead, from the first to the last or the other way round, and leaves the plan indexed. Match
// changes the plan around operation i if it fits and says whether it did. Gives how many did.
using Match = std::function<bool(Rewriter&, OpIndex)>;
int rewrite_each(Plan& plan, std::string_view pass, const Match& match);
int rewrite_each_from_end(Plan& plan, std::string_view pass, const Match& match);

// Which element of an operand meets element i of `n`.
int64_t spread_element(Spread spread, int64_t groups, int64_t n, int64_t i);

// Operations for the same rows: their values may be joined.
bool same_rows_of(const Op& a, const Op& b);

// The node that an operation runs by its reference kernel, where it is this operator; else null.
const onnx::Node* reference_node(const Plan& plan, const Op* op, std::string_view name);

// How a QuantizeLinear or DequantizeLinear maps codes, if its scale and zero point are constant and the same for all elements. Without a
// zero point codes are as `otherwise`.
std::optional<CodeGrid> grid_of(const Plan& plan, const Op& op, DType otherwise);

// The elements of a constant operand as it meets one group of `group` elements, where every group meets the same; empty otherwise.
std::vector<float> per_group(const Plan& plan, const Input& input, Spread spread, int64_t group);

}  // namespace kvik::native
