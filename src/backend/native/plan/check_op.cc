#include "backend/native/plan/check_op.h"

#include <algorithm>
#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::native {
namespace {

const char* section_name(Op::Section section) {
  static constexpr const char* kNames[] = {"source", "body", "tail"};
  return kNames[static_cast<size_t>(section)];
}

}  // namespace

OpCheck::OpCheck(const Plan& plan) : plan_(plan), made_in_(plan.values.size()) {}

void OpCheck::fail(const std::string& what) const {
  const std::string where = op_ == nullptr ? "" : fmt::format("op {} ({}): ", op_ - plan_.ops.data(), op_->kind());
  throw Error(Code::kBadArgument, fmt::format("the plan is not well-formed: {}{}", where, what));
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

void OpCheck::add_given(const char* what, ValueIndex value, std::initializer_list<DType> dtypes, Op::Section section) {
  require(is_index(value, plan_.values), "{} is %{}; the plan has {} values", what, value, plan_.values.size());
  const PlanValue& given = plan_.value(value);
  const bool has_type = std::ranges::find(dtypes, given.dtype) != dtypes.end();
  require(has_type && given.size >= 1, "{} is %{}, {}[{}]; expected {} with at least one element", what, value, dtype_name(given.dtype),
          given.size, dtype_name(*dtypes.begin()));
  require(!made_in_[static_cast<size_t>(value)], "{} is %{}, which is already another input of the plan", what, value);
  made_in_[static_cast<size_t>(value)] = section;
}

void OpCheck::check_given() {
  if (plan_.token != kNoIndex) add_given("the token", plan_.token, {DType::kI64, DType::kI32}, Op::Section::kBody);
  if (plan_.embedding != kNoIndex) add_given("the embedding", plan_.embedding, {DType::kF32}, Op::Section::kBody);
  for (const Plan::SourceValue& source : plan_.source_inputs) {
    add_given("an input of the source", source.value, {DType::kF32}, Op::Section::kSource);
    require(source.port >= 0 && source.position_axis >= 0,
            "the input %{} of the source has port {} and position axis {}; expected numbers from 0 on", source.value, source.port,
            source.position_axis);
  }
}

void OpCheck::check_links() {
  for (const Input& input : op_->in) check_input(input);
  for (const ValueIndex made : op_->out) {
    if (made == kNoIndex) continue;
    require(is_index(made, plan_.values), "it computes %{}; the plan has {} values", made, plan_.values.size());
    require(!made_in_[static_cast<size_t>(made)], "it computes %{}, which was computed before", made);
  }
  if (op_->selection == kNoIndex) return;
  require(is_index(op_->selection, plan_.values), "its rows are selected by %{}; the plan has {} values", op_->selection,
          plan_.values.size());
  const PlanValue& selection = plan_.value(op_->selection);
  require(selection.selection == op_->selection, "its rows are selected by %{}, which selects no rows", op_->selection);
  check_input({Input::Kind::kValue, op_->selection, 0, selection.size});
}

void OpCheck::check_input(const Input& input) const {
  if (!input) return;
  const char kind = input.is_value() ? '%' : input.is_constant() ? 'c' : 't';
  const size_t count = input.is_value() ? plan_.values.size() : input.is_constant() ? plan_.constants.size() : plan_.tables.size();
  const char* kinds = input.is_value() ? "values" : input.is_constant() ? "constants" : "tables";
  require(input.index >= 0 && static_cast<size_t>(input.index) < count, "{}{} is read; the plan has {} {}", kind, input.index, count,
          kinds);
  if (input.is_value()) {
    const std::optional<Op::Section> made = made_in_[static_cast<size_t>(input.index)];
    const bool crosses = made == Op::Section::kBody && op_ != nullptr && op_->section == Op::Section::kTail;
    require(made.has_value(), "%{} is read before it is computed", input.index);
    require(op_ == nullptr || made == op_->section || crosses, "%{} is read; it is made in the {} section, this is the {} section",
            input.index, section_name(*made), section_name(op_ == nullptr ? *made : op_->section));
  }
  const int64_t size = whole_size(input);
  require(input.offset >= 0 && input.size >= 0 && input.offset <= size && input.size <= size - input.offset,
          "{} elements from {} on are read of {}{}, which has {}", input.size, input.offset, kind, input.index, size);
}

void OpCheck::check_output() const {
  require(plan_.output.is_value(), "its output is a constant, a table or nothing; expected a value");
  check_input(plan_.output);
  const DType type = plan_.value(plan_.output.index).dtype;
  require(type == DType::kF32 && plan_.output.size >= 1, "its output is {}[{}]; expected f32 with at least one element", dtype_name(type),
          plan_.output.size);
  require(made_in_[static_cast<size_t>(plan_.output.index)] != Op::Section::kSource,
          "its output %{} is made in the source section; expected the body or the tail", plan_.output.index);
}

int64_t OpCheck::whole_size(const Input& input) const {
  const auto at = static_cast<size_t>(input.index);
  if (input.is_value()) return plan_.values[at].size;
  return input.is_constant() ? plan_.constants[at].size() : plan_.tables[at].size;
}

DType OpCheck::dtype(const Input& input) const {
  const auto at = static_cast<size_t>(input.index);
  if (input.is_value()) return plan_.values[at].dtype;
  return input.is_constant() ? plan_.constants[at].dtype() : plan_.tables[at].dtype;
}

void OpCheck::floats(size_t i, int64_t size) const {
  require(i < op_->in.size() && op_->in[i], "input {} is missing", i);
  const Input& input = op_->in[i];
  require(dtype(input) == DType::kF32, "input {} is {}; expected f32", i, dtype_name(dtype(input)));
  require(size < 0 || input.size == size, "input {} has {} elements; expected {}", i, input.size, size);
}

void OpCheck::optional_floats(size_t i, int64_t size) const {
  if (i < op_->in.size() && op_->in[i]) floats(i, size);
}

void OpCheck::counts(size_t n_inputs, size_t n_outputs) const {
  require(op_->in.size() == n_inputs && op_->out.size() == n_outputs, "it has {} inputs and {} outputs; expected {} and {}", op_->in.size(),
          op_->out.size(), n_inputs, n_outputs);
}

int64_t OpCheck::out_floats(size_t i) const {
  require(i < op_->out.size() && op_->out[i] != kNoIndex, "output {} is missing", i);
  const PlanValue& out = plan_.value(op_->out[i]);
  require(out.dtype == DType::kF32, "output {} is {}; expected f32", i, dtype_name(out.dtype));
  return out.size;
}

void OpCheck::out_floats_are(int64_t size, size_t i) const {
  const int64_t found = out_floats(i);
  require(found == size, "output {} has {} elements; expected {}", i, found, size);
}

void OpCheck::groups(int64_t n_groups, int64_t n) const {
  require(n_groups >= 1 && n_groups <= kLargestSize && n % n_groups == 0, "{} elements are in {} groups; expected groups of equal size", n,
          n_groups);
}

void OpCheck::spread(size_t i, Spread how, int64_t n_groups, int64_t n) const {
  switch (how) {
    case Spread::kAll: return floats(i, n);
    case Spread::kEvery: return floats(i, n / n_groups);
    case Spread::kPerGroup: return floats(i, n_groups);
    case Spread::kOne: return floats(i, 1);
  }
  fail(fmt::format("input {} has the unknown spread {}", i, static_cast<int>(how)));
}

const PlanWeight& OpCheck::weight(int i) const {
  require(is_index(i, plan_.weights), "it reads weight {}; the plan has {}", i, plan_.weights.size());
  return plan_.weights[static_cast<size_t>(i)];
}

const AttentionSpec& OpCheck::attention(int i) const {
  require(is_index(i, plan_.attends), "it belongs to attention {}; the plan has {}", i, plan_.attends.size());
  return plan_.attends[static_cast<size_t>(i)];
}

const Plan::PlanRegister& OpCheck::state_register(int i) const {
  require(is_index(i, plan_.registers), "it names register {}; the plan has {}", i, plan_.registers.size());
  return plan_.registers[static_cast<size_t>(i)];
}

void OpCheck::require_section(Op::Section expected) const {
  require(op_->section == expected, "it is in the {} section; expected the {} section", section_name(op_->section), section_name(expected));
}

void OpCheck::check(const Embed& args) const {
  counts(1, 1);
  const Input& token = op_->in[0];
  require(token && token.size >= 1, "the token is missing");
  const DType type = dtype(token);
  require(type == DType::kI64 || (type == DType::kI32 && token.is_value()), "the token is {}; expected i64, or i32 of a value",
          dtype_name(type));
  const PlanWeight& table = weight(args.weight);
  require(table.parts.size() == 1, "its table, weight {}, has {} parts; expected one", args.weight, table.parts.size());
  out_floats_are(table.k);
}

void OpCheck::check(const Matmul& args) const {
  require((op_->in.size() == 1 || op_->in.size() == 2) && op_->out.size() == 1 && !args.weights.empty(),
          "it has {} inputs, {} outputs and {} weights; expected 1 or 2, 1, and at least 1", op_->in.size(), op_->out.size(),
          args.weights.size());
  const PlanWeight& first = weight(args.weights.front());
  for (const int one : args.weights) {
    require(weight(one).k == first.k && weight(one).n == first.n, "weight {} is {} x {}; expected {} x {}", one, weight(one).k,
            weight(one).n, first.k, first.n);
  }
  floats(0);
  optional_floats(1, first.n);
  const auto n_groups = static_cast<int64_t>(args.weights.size());
  const int64_t per_row = first.k * (args.shared ? 1 : n_groups);
  require(size(0) > 0 && size(0) % per_row == 0, "input 0 has {} elements; expected a multiple of {}", size(0), per_row);
  out_floats_are(size(0) / per_row * n_groups * first.n);
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
  require(op_->in.size() == 5 && (op_->out.size() == 1 || op_->out.size() == 2), "it has {} inputs and {} outputs; expected 5, and 1 or 2",
          op_->in.size(), op_->out.size());
  const int64_t n = out_floats();
  groups(args.norm.groups, n);
  floats(0, n);
  floats(1, n);
  optional_floats(2, n);
  optional_floats(3, n / args.norm.groups);
  optional_floats(4, n / args.norm.groups);
  if (op_->out.size() == 2 && op_->out[1] != kNoIndex) out_floats_are(n, 1);
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
  out_floats_are(args.groups);
}

void OpCheck::check(const RotaryOp& args) const {
  counts(3, 1);
  const bool sizes = args.n_heads >= 1 && args.n_heads <= kLargestSize && args.head_dim >= 1 && args.head_dim <= kLargestSize &&
                     args.n_pairs >= 0 && 2 * args.n_pairs <= args.head_dim;
  require(sizes, "it rotates {} pairs of {} heads of {} elements", args.n_pairs, args.n_heads, args.head_dim);
  out_floats_are(args.n_heads * args.head_dim);
  floats(0, out_floats());
  floats(1);
  floats(2);
  require(size(1) >= args.n_pairs && size(2) >= args.n_pairs, "{} cosines and {} sines are read; expected at least {}", size(1), size(2),
          args.n_pairs);
}

void OpCheck::check(const Move& args) const {
  require(op_->out.size() == 1 && op_->out[0] != kNoIndex, "it has {} outputs; expected one", op_->out.size());
  const PlanValue& out = plan_.value(op_->out[0]);
  for (const Move::Run& run : args.runs) {
    require(is_index(run.input, op_->in) && op_->in[static_cast<size_t>(run.input)], "input {} is moved, which is missing", run.input);
    const Input& from = op_->in[static_cast<size_t>(run.input)];
    require(bits_per_element(dtype(from)) == bits_per_element(out.dtype), "input {} is {}; expected the size of {}", run.input,
            dtype_name(dtype(from)), dtype_name(out.dtype));
    const auto fits = [&](int64_t at, int64_t size) { return at >= 0 && at <= size && run.count <= size - at; };
    require(run.count >= 0 && fits(run.from, from.size) && fits(run.to, out.size),
            "{} elements are moved from {} of input {} ({} elements) to {} of the output ({} elements)", run.count, run.from, run.input,
            from.size, run.to, out.size);
  }
}

void OpCheck::check(const AppendOp& args) const {
  counts(2, 0);
  const AttentionSpec& a = attention(args.attend);
  floats(0, a.n_kv_heads * a.key_dim);
  floats(1, a.n_kv_heads * a.value_dim);
  require_section(a.from_source ? Op::Section::kSource : Op::Section::kBody);
}

void OpCheck::check(const AttendOp& args) const {
  counts(1, 1);
  const AttentionSpec& a = attention(args.attend);
  floats(0, a.n_heads * a.key_dim);
  out_floats_are(a.n_heads * a.value_dim);
  require(op_->section != Op::Section::kSource, "it is in the source section; expected the body or the tail");
}

void OpCheck::check(const ReadRegister& args) const {
  counts(0, 1);
  const Plan::PlanRegister& of = state_register(args.index);
  require_section(Op::Section::kBody);
  require(op_->out[0] != kNoIndex, "output 0 is missing");
  const PlanValue& out = plan_.value(op_->out[0]);
  require(out.size == of.size && out.dtype == of.dtype, "output 0 is {}[{}]; register {} is {}[{}]", dtype_name(out.dtype), out.size,
          args.index, dtype_name(of.dtype), of.size);
}

void OpCheck::check(const WriteRegister& args) const {
  counts(1, 0);
  const Plan::PlanRegister& of = state_register(args.index);
  require_section(Op::Section::kBody);
  require(static_cast<bool>(op_->in[0]), "input 0 is missing");
  const DType type = dtype(op_->in[0]);
  require(size(0) == of.size && type == of.dtype, "input 0 is {}[{}]; register {} is {}[{}]", dtype_name(type), size(0), args.index,
          dtype_name(of.dtype), of.size);
}

void OpCheck::check(const ReferenceOp& args) const {
  const auto elements = [](const Dims& dims) {
    double n = 1;
    for (const int64_t dim : dims) n *= static_cast<double>(dim < 0 ? 1 : dim);
    return n;
  };
  const size_t n_nodes = plan_.nodes == nullptr ? 0 : plan_.nodes->graph().nodes.size();
  require(op_->node >= 0 && static_cast<size_t>(op_->node) < n_nodes, "it runs node {}; the plan has {}", op_->node, n_nodes);
  for (const onnx::Attribute& attribute : plan_.node(*op_).attributes) {
    const bool has_graph = std::holds_alternative<std::shared_ptr<const onnx::Graph>>(attribute.data) ||
                           std::holds_alternative<std::vector<std::shared_ptr<const onnx::Graph>>>(attribute.data);
    require(!has_graph, "its node has a subgraph in attribute '{}'; expected none", attribute.name);
  }
  require(args.in_dims.size() <= op_->in.size() && args.in_bool.size() == args.in_dims.size() && args.out_dims.size() == op_->out.size() &&
              !op_->out.empty(),
          "it has {} inputs and {} outputs, and shapes of {} and {}", op_->in.size(), op_->out.size(), args.in_dims.size(),
          args.out_dims.size());
  require(op_->out.size() > 1 || op_->out[0] != kNoIndex, "output 0 is missing");
  for (size_t i = 0; i < args.in_dims.size(); ++i) {
    if (!op_->in[i] || op_->in[i].is_constant()) continue;
    require(args.in_dims[i].size() <= 32 && elements(args.in_dims[i]) <= static_cast<double>(op_->in[i].size),
            "input {} has {} elements; expected as many as shape {} has", i, op_->in[i].size, to_string(args.in_dims[i]));
  }
}

}  // namespace kvik::native
