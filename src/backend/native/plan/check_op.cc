#include "backend/native/plan/check_op.h"

#include <algorithm>
#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::native {
OpCheck::OpCheck(const Plan& plan) : plan_(plan), made_in_(plan.values.size()) {}

void OpCheck::fail(const char* what) const {
  const std::string where = op_ == nullptr ? "" : fmt::format(" of op {} ({})", op_ - plan_.ops.data(), op_->kind());
  throw Error(Code::kBadArgument, fmt::format("the plan is not well-formed: {}{}", what, where));
}

void OpCheck::run() {
  check_given();
  for (const Op& op : plan_.ops) {
    op_ = &op;
    check_links();
    std::visit([this](const auto& args) { check(args); }, op.args);
    for (const ValueIndex made : op.out) {
      if (made != kNoIndex) made_in_[static_cast<size_t>(made)] = op.section;
    }
  }
  op_ = nullptr;
  check_output();
}

void OpCheck::check_given() {
  const auto give = [&](ValueIndex value, std::initializer_list<DType> dtypes, Op::Section section) {
    require(is_index(value, plan_.values) && std::ranges::find(dtypes, plan_.value(value).dtype) != dtypes.end() &&
                plan_.value(value).size >= 1 && !made_in_[static_cast<size_t>(value)],
            "a value that is given");
    made_in_[static_cast<size_t>(value)] = section;
  };
  if (plan_.token != kNoIndex) give(plan_.token, {DType::kI64, DType::kI32}, Op::Section::kBody);
  if (plan_.embedding != kNoIndex) give(plan_.embedding, {DType::kF32}, Op::Section::kBody);
  for (const Plan::SourceValue& source : plan_.source_inputs) {
    give(source.value, {DType::kF32}, Op::Section::kSource);
    require(source.port >= 0 && source.position_axis >= 0, "a value of the source");
  }
}

void OpCheck::check_links() {
  for (const Input& input : op_->in) check_input(input);
  for (const ValueIndex made : op_->out) {
    if (made == kNoIndex) continue;
    require(is_index(made, plan_.values) && !made_in_[static_cast<size_t>(made)], "an output");
  }
  if (op_->selection == kNoIndex) return;
  require(is_index(op_->selection, plan_.values) && plan_.value(op_->selection).selection == op_->selection, "the selection");
  check_input({Input::Kind::kValue, op_->selection, 0, plan_.value(op_->selection).size});
}

void OpCheck::check_input(const Input& input) const {
  if (!input) return;
  int64_t size = 0;
  if (input.is_value()) {
    require(is_index(input.index, plan_.values), "an input");
    const std::optional<Op::Section> made = made_in_[static_cast<size_t>(input.index)];
    const bool crosses = made == Op::Section::kBody && op_ != nullptr && op_->section == Op::Section::kTail;
    require(made.has_value() && (op_ == nullptr || made == op_->section || crosses), "an input that is not made before");
    size = plan_.value(input.index).size;
  } else if (input.is_constant()) {
    require(is_index(input.index, plan_.constants), "a constant");
    size = plan_.constants[static_cast<size_t>(input.index)].size();
  } else {
    require(is_index(input.index, plan_.tables), "a table");
    size = plan_.tables[static_cast<size_t>(input.index)].size;
  }
  require(input.offset >= 0 && input.size >= 0 && input.offset <= size && input.size <= size - input.offset, "the part of an input");
}

void OpCheck::check_output() const {
  require(plan_.output.is_value(), "its output");
  check_input(plan_.output);
  require(plan_.value(plan_.output.index).dtype == DType::kF32 && plan_.output.size >= 1 &&
              made_in_[static_cast<size_t>(plan_.output.index)] != Op::Section::kSource,
          "its output");
}

DType OpCheck::dtype(const Input& input) const {
  const auto at = static_cast<size_t>(input.index);
  if (input.is_value()) return plan_.values[at].dtype;
  return input.is_constant() ? plan_.constants[at].dtype() : plan_.tables[at].dtype;
}

void OpCheck::floats(size_t i, int64_t size) const {
  require(i < op_->in.size() && op_->in[i] && dtype(op_->in[i]) == DType::kF32, "the type of an input");
  require(size < 0 || op_->in[i].size == size, "the size of an input");
}

void OpCheck::optional_floats(size_t i, int64_t size) const {
  if (i < op_->in.size() && op_->in[i]) floats(i, size);
}

void OpCheck::counts(size_t n_inputs, size_t n_outputs) const {
  require(op_->in.size() == n_inputs && op_->out.size() == n_outputs, "the number of inputs or outputs");
}

int64_t OpCheck::out_floats(size_t i) const {
  require(i < op_->out.size() && op_->out[i] != kNoIndex && plan_.value(op_->out[i]).dtype == DType::kF32, "the type of an output");
  return plan_.value(op_->out[i]).size;
}

void OpCheck::groups(int64_t n_groups, int64_t n) const {
  require(n_groups >= 1 && n_groups <= kLargestSize && n % n_groups == 0, "the groups");
}

void OpCheck::spread(size_t i, Spread how, int64_t n_groups, int64_t n) const {
  switch (how) {
    case Spread::kAll: return floats(i, n);
    case Spread::kEvery: return floats(i, n / n_groups);
    case Spread::kPerGroup: return floats(i, n_groups);
    case Spread::kOne: return floats(i, 1);
  }
  fail("the spread");
}

const PlanWeight& OpCheck::weight(int i) const {
  require(is_index(i, plan_.weights), "a weight");
  return plan_.weights[static_cast<size_t>(i)];
}

const PlanAttention& OpCheck::attention(int i) const {
  require(is_index(i, plan_.attends), "an attention");
  return plan_.attends[static_cast<size_t>(i)];
}

void OpCheck::check(const Embed& args) const {
  counts(1, 1);
  const Input& token = op_->in[0];
  require(token && token.size >= 1, "the token");
  const DType type = dtype(token);
  require(type == DType::kI64 || (type == DType::kI32 && token.is_value()), "the type of the token");
  require(weight(args.weight).parts.size() == 1 && out_floats() == weight(args.weight).k, "the table of embeddings");
}

void OpCheck::check(const Matmul& args) const {
  require((op_->in.size() == 1 || op_->in.size() == 2) && op_->out.size() == 1 && !args.weights.empty(), "the number of inputs or outputs");
  const PlanWeight& first = weight(args.weights.front());
  for (const int one : args.weights) require(weight(one).k == first.k && weight(one).n == first.n, "the shapes of its weights");
  floats(0);
  optional_floats(1, first.n);
  const auto n_groups = static_cast<int64_t>(args.weights.size());
  const int64_t per_row = first.k * (args.shared ? 1 : n_groups);
  require(size(0) > 0 && size(0) % per_row == 0, "the size of an input");
  require(out_floats() == size(0) / per_row * n_groups * first.n, "the size of its output");
}

void OpCheck::check(const UnaryOp&) const {
  counts(1, 1);
  floats(0, out_floats());
}

void OpCheck::check(const BinaryOp& args) const {
  counts(2, 1);
  const int64_t n = out_floats();
  groups(args.groups, n);
  spread(0, args.a, args.groups, n);
  spread(1, args.b, args.groups, n);
}

void OpCheck::check(const GateOp&) const {
  counts(2, 1);
  floats(0, out_floats());
  floats(1, out_floats());
}

void OpCheck::check(const ClipOp&) const {
  counts(1, 1);
  floats(0, out_floats());
}

void OpCheck::check(const WhereOp& args) const {
  counts(3, 1);
  const int64_t n = out_floats();
  groups(args.groups, n);
  spread(0, args.condition, args.groups, n);
  spread(1, args.yes, args.groups, n);
  spread(2, args.no, args.groups, n);
}

void OpCheck::check(const NormOp& args) const {
  counts(3, 1);
  const int64_t n = out_floats();
  groups(args.groups, n);
  floats(0, n);
  optional_floats(1, n / args.groups);
  optional_floats(2, n / args.groups);
}

void OpCheck::check(const SkipNormOp& args) const {
  require(op_->in.size() == 5 && (op_->out.size() == 1 || op_->out.size() == 2), "the number of inputs or outputs");
  const int64_t n = out_floats();
  groups(args.norm.groups, n);
  floats(0, n);
  floats(1, n);
  optional_floats(2, n);
  optional_floats(3, n / args.norm.groups);
  optional_floats(4, n / args.norm.groups);
  require(op_->out.size() == 1 || op_->out[1] == kNoIndex || out_floats(1) == n, "the size of the sum");
}

void OpCheck::check(const SoftmaxOp& args) const {
  counts(1, 1);
  groups(args.groups, out_floats());
  floats(0, out_floats());
}

void OpCheck::check(const ReduceOp& args) const {
  counts(1, 1);
  floats(0);
  groups(args.groups, size(0));
  require(out_floats() == args.groups, "the size of its output");
}

void OpCheck::check(const RotaryOp& args) const {
  counts(3, 1);
  const bool sizes = args.n_heads >= 1 && args.n_heads <= kLargestSize && args.head_dim >= 1 && args.head_dim <= kLargestSize &&
                     args.n_pairs >= 0 && 2 * args.n_pairs <= args.head_dim;
  require(sizes && args.n_heads * args.head_dim == out_floats(), "the heads");
  floats(0, out_floats());
  floats(1);
  floats(2);
  require(size(1) >= args.n_pairs && size(2) >= args.n_pairs, "the angles");
}

void OpCheck::check(const Move& args) const {
  require(op_->out.size() == 1 && op_->out[0] != kNoIndex, "the number of inputs or outputs");
  const PlanValue& out = plan_.value(op_->out[0]);
  for (const Move::Run& run : args.runs) {
    require(is_index(run.input, op_->in) && op_->in[static_cast<size_t>(run.input)], "a run");
    const Input& from = op_->in[static_cast<size_t>(run.input)];
    require(bits_per_element(dtype(from)) == bits_per_element(out.dtype), "the type of an input");
    const auto fits = [&](int64_t at, int64_t size) { return at >= 0 && at <= size && run.count <= size - at; };
    require(run.count >= 0 && fits(run.from, from.size) && fits(run.to, out.size), "a run");
  }
}

void OpCheck::check(const AppendOp& args) const {
  counts(2, 0);
  const PlanAttention& a = attention(args.attend);
  floats(0, a.n_kv_heads * a.key_dim);
  floats(1, a.n_kv_heads * a.value_dim);
  require(op_->section == (a.from_source ? Op::Section::kSource : Op::Section::kBody), "the section");
}

void OpCheck::check(const AttendOp& args) const {
  counts(1, 1);
  const PlanAttention& a = attention(args.attend);
  floats(0, a.n_heads * a.key_dim);
  require(out_floats() == a.n_heads * a.value_dim && op_->section != Op::Section::kSource, "the size of its output");
}

void OpCheck::check(const ReadRegister& args) const {
  counts(0, 1);
  require(is_index(args.index, plan_.registers) && op_->out[0] != kNoIndex && op_->section == Op::Section::kBody, "a register");
  const Plan::PlanRegister& of = plan_.registers[static_cast<size_t>(args.index)];
  require(plan_.value(op_->out[0]).size == of.size && plan_.value(op_->out[0]).dtype == of.dtype, "the size of a register");
}

void OpCheck::check(const WriteRegister& args) const {
  counts(1, 0);
  require(is_index(args.index, plan_.registers) && op_->in[0] && op_->section == Op::Section::kBody, "a register");
  const Plan::PlanRegister& of = plan_.registers[static_cast<size_t>(args.index)];
  require(size(0) == of.size && dtype(op_->in[0]) == of.dtype, "the size of a register");
}

void OpCheck::check(const ReferenceOp& args) const {
  const auto elements = [](const Dims& dims) {
    double n = 1;
    for (const int64_t dim : dims) n *= static_cast<double>(dim < 0 ? 1 : dim);
    return n;
  };
  require(plan_.nodes != nullptr && is_index(op_->node, plan_.nodes->graph().nodes), "the node");
  for (const onnx::Attribute& attribute : plan_.node(*op_).attributes) {
    const bool has_graph = std::holds_alternative<std::shared_ptr<const onnx::Graph>>(attribute.data) ||
                           std::holds_alternative<std::vector<std::shared_ptr<const onnx::Graph>>>(attribute.data);
    require(!has_graph, "the node, which has a subgraph");
  }
  require(args.in_dims.size() <= op_->in.size() && args.in_bool.size() == args.in_dims.size() && args.out_dims.size() == op_->out.size() &&
              !op_->out.empty(),
          "the number of inputs or outputs");
  require(op_->out.size() > 1 || op_->out[0] != kNoIndex, "an output");
  for (size_t i = 0; i < args.in_dims.size(); ++i) {
    if (!op_->in[i] || op_->in[i].is_constant()) continue;
    require(args.in_dims[i].size() <= 32 && elements(args.in_dims[i]) <= static_cast<double>(op_->in[i].size), "the size of an input");
  }
}

}  // namespace kvik::native
