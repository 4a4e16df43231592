#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/native/fuse/fuse.h"
#include "backend/native/fuse/passes.h"
#include "backend/native/plan/plan.h"

namespace kvik::native::testing_support {

// A plan written by hand, of one given row (the plan's embedding) and what is computed from it.
class PlanBuilder {
 public:
  explicit PlanBuilder(int64_t row_size) {
    plan_.embedding = plan_.add_value("x", row_size);
    x_ = plan_.whole(plan_.embedding);
  }
  // An operation and its output.
  Input op(Op::Args args, std::vector<Input> in, int64_t size) {
    const ValueIndex made = plan_.add_value("v" + std::to_string(plan_.values.size()), size);
    plan_.ops.push_back({std::move(args), std::move(in), {made}});
    return plan_.whole(made);
  }
  void sink(Op::Args args, std::vector<Input> in) { plan_.ops.push_back({std::move(args), std::move(in), {}}); }

  Input x() const { return x_; }
  static Input part(const Input& input, int64_t offset, int64_t size) { return {input.kind, input.index, input.offset + offset, size}; }
  Input constant(std::vector<float> values) {
    const auto n = static_cast<int64_t>(values.size());
    return {Input::Kind::kConstant, plan_.add_constant(Tensor::of<float>({n}, values)), 0, n};
  }
  Input number(float value) { return constant({value}); }
  Input unary(Unary kind, const Input& a) { return op(UnaryOp{kind}, {a}, a.size); }
  // b may be one number, one group of a, or one number for each of a's `groups`.
  Input binary(Binary kind, const Input& a, const Input& b, int64_t groups = 1);
  Input add(const Input& a, const Input& b, int64_t groups = 1) { return binary(Binary::kAdd, a, b, groups); }
  Input sub(const Input& a, const Input& b, int64_t groups = 1) { return binary(Binary::kSub, a, b, groups); }
  Input mul(const Input& a, const Input& b, int64_t groups = 1) { return binary(Binary::kMul, a, b, groups); }
  Input div(const Input& a, const Input& b, int64_t groups = 1) { return binary(Binary::kDiv, a, b, groups); }
  Input reduce(Reduce kind, const Input& a, int64_t groups = 1) { return op(ReduceOp{kind, groups}, {a}, groups); }
  // Elements of the inputs, counted through all of them.
  Input move(const std::vector<Input>& in, const std::vector<int64_t>& map);
  Input matmul(const Input& a, int64_t n, const Input& bias = {});
  int table(int64_t size, float (*fn)(int64_t position, int64_t element));
  Input table_input(int index) const { return {Input::Kind::kTable, index, 0, plan_.tables[static_cast<size_t>(index)].size}; }
  Input attend(const Input& q, const Input& k, const Input& v);

  // The plan that computes this.
  Plan done(const Input& output);

 private:
  Plan plan_;
  Input x_;
};

// The plan's result for one row at a position. Attention is replaced by scale * (q + appended values), so that both are visible.
std::vector<float> run(const Plan& plan, int64_t position = 3);

// How many operations of the kind there are.
int count(const Plan& plan, std::string_view kind);
std::string kinds(const Plan& plan);  // "norm matmul …"

// Runs the pass and checks that the plan's results are the same within rounding. Returns the pass's result.
int fuse_and_compare(int (*pass)(Plan&), Plan& plan);

}  // namespace kvik::native::testing_support
