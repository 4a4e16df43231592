#include <algorithm>
#include <fmt/format.h>

#include "backend/graph/convert.h"
#include "backend/native/lower/lowering.h"
#include "backend/native/tables/extract.h"

namespace kvik::native {
namespace {

const LowerRules& rules() {
  static const LowerRules kRules = [] {
    LowerRules made;
    add_elementwise_rules(made);
    add_activation_rules(made);
    add_movement_rules(made);
    add_product_rules(made);
    add_norm_rules(made);
    return made;
  }();
  return kRules;
}

Dims selected(Dims dims) {
  for (int64_t& dim : dims) dim = dim < 0 ? 1 : dim;
  return dims;
}

bool has_selection(const Dims& dims) {
  return std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; });
}

// Booleans as 1 and 0; half, bfloat16 and double as f32.
Tensor plan_tensor(const Tensor& tensor) {
  if (tensor.dtype() == DType::kF16 || tensor.dtype() == DType::kBF16 || tensor.dtype() == DType::kF64)
    return backend::cast_float(tensor, DType::kF32);
  if (tensor.dtype() != DType::kBool) return tensor;
  Tensor floats(DType::kF32, tensor.dims());
  const std::span<float> to = floats.mutable_data<float>();
  std::transform(tensor.data<bool>().begin(), tensor.data<bool>().end(), to.begin(), [](bool b) { return b ? 1.0f : 0.0f; });
  return floats;
}

}  // namespace

Lowering::Lowering(const Program& program, Constants& constants) : program_(program), constants_(constants), rows_(program.values.size()) {
  if (program.flat->file != nullptr) plan_.file = program.flat->file->path.string();
  plan_.one_token = program.one_token;
  plan_.unsupported_tokens = program.unsupported_tokens;
  plan_.max_positions = program.max_positions;
  plan_.notes = program.notes;
  for (const Attend& attend : program.attends) plan_.attends.push_back(attend);
  for (const PositionTable& table : program.tables) {
    PlanTable& to = plan_.tables.emplace_back();
    to.name = table.name;
    to.dtype = plan_dtype(table.dtype);
    to.size = element_count(table.dims);
    to.limit = table.limit;
    to.recipe = std::make_shared<const PositionRecipe>(take(extract_recipe(program, table, constants)));
  }
}

Plan Lowering::run() {
  declare_inputs();
  find_read();
  section_ = Op::Section::kSource;
  for (const RowOp& op : program_.source_ops) lower_op(op);
  for (size_t a = 0; a < program_.attends.size(); ++a) {
    const Attend& attend = program_.attends[a];
    if (!attend.from_source) continue;
    const RowOp none;
    const LowerItem item{none, {}};
    plan_.ops.push_back({AppendOp{static_cast<int>(a)},
                         {arrange_by(item, of_row(attend.k), attend.k_map), arrange_by(item, of_row(attend.v), attend.v_map)},
                         {},
                         section_});
  }
  section_ = Op::Section::kBody;
  for (size_t r = 0; r < program_.registers.size(); ++r) {
    if (program_.registers[r].in == kNoRow) continue;
    plan_.ops.push_back({ReadRegister{static_cast<int>(r)}, {}, {rows_[static_cast<size_t>(program_.registers[r].in)].index}, section_});
  }
  for (const RowOp& op : program_.ops) lower_op(op);
  for (size_t r = 0; r < program_.registers.size(); ++r) {
    plan_.ops.push_back({WriteRegister{static_cast<int>(r)}, {of_row(program_.registers[r].out)}, {}, section_});
  }
  plan_.output = of_row(program_.output);
  plan_.drop_unused();
  return std::move(plan_);
}

void Lowering::declare_inputs() {
  const auto given = [&](RowId id) {
    const RowValue& row = program_.values[static_cast<size_t>(id)];
    const ValueIndex value = plan_.add_value(std::string(row.name), element_count(selected(row.dims)), plan_dtype(row.dtype));
    rows_[static_cast<size_t>(id)] = plan_.whole(value);
    return value;
  };
  if (program_.token != kNoRow) plan_.token = given(program_.token);
  if (program_.embedding != kNoRow) plan_.embedding = given(program_.embedding);
  for (const SourceInput& source : program_.source_inputs)
    plan_.source_inputs.push_back({given(source.row), source.port, source.position_axis});
  for (const Register& r : program_.registers) {
    const RowValue& row = program_.values[static_cast<size_t>(r.out)];
    if (r.in != kNoRow) given(r.in);
    plan_.registers.push_back({plan_dtype(row.dtype), element_count(row.dims)});
  }
}

Input Lowering::of_row(RowId id) const {
  if (id == kNoRow || !rows_[static_cast<size_t>(id)])
    throw Error(Code::kUnsupported, fmt::format("the value '{}' is read before it is computed",
                                                id == kNoRow ? "" : program_.values[static_cast<size_t>(id)].name));
  return rows_[static_cast<size_t>(id)];
}

// An operator may have unused outputs, which its rule need not support.
void Lowering::find_read() {
  read_.assign(program_.values.size(), false);
  const auto read = [&](RowId id) {
    if (id != kNoRow) read_[static_cast<size_t>(id)] = true;
  };
  for (const std::vector<RowOp>* ops : {&program_.source_ops, &program_.ops}) {
    for (const RowOp& op : *ops) {
      for (const Operand& operand : op.inputs) read(operand.kind == Operand::Kind::kRow ? operand.index : kNoRow);
    }
  }
  for (const Attend& attend : program_.attends) {
    for (const RowId id : {attend.q, attend.k, attend.v}) read(id);
  }
  for (const Register& r : program_.registers) read(r.out);
  read(program_.output);
}

void Lowering::lower_op(const RowOp& given) {
  if (given.kind == RowOp::Kind::kAttend) return lower_attend(given);
  RowOp op = given;
  for (RowId& id : op.outputs) id = id != kNoRow && read_[static_cast<size_t>(id)] ? id : kNoRow;
  if (std::all_of(op.outputs.begin(), op.outputs.end(), [](RowId id) { return id == kNoRow; })) return;
  static const onnx::Node kNone;
  const LowerItem item{op, op.node == onnx::kNoNode ? kNone : program_.flat->graph.nodes[static_cast<size_t>(op.node)]};
  if (op.kind == RowOp::Kind::kReshape) return set(item, 0, input(item, 0));
  if (op.kind == RowOp::Kind::kExpand) return set(item, 0, broadcast(item, input(item, 0), dims(item, 0), out_dims(item), out_dtype(item)));
  const auto rule = rules().find({item.node.domain, item.node.op});
  if (rule != rules().end() && rule->second(*this, item)) return;
  lower_reference(item);
}

void Lowering::lower_attend(const RowOp& op) {
  static const onnx::Node kNone;
  const LowerItem item{op, kNone};
  const Attend& attend = program_.attends[static_cast<size_t>(op.attend)];
  const Input q = arrange_by(item, of_row(attend.q), attend.q_map);
  if (!attend.from_source) {
    Op append{AppendOp{op.attend},
              {arrange_by(item, of_row(attend.k), attend.k_map), arrange_by(item, of_row(attend.v), attend.v_map)},
              {},
              section_};
    plan_.ops.push_back(std::move(append));
  }
  const Input out = emit(item, AttendOp{op.attend}, {q}, attend.n_heads * attend.value_dim);
  rows_[static_cast<size_t>(attend.out)] = arrange_by(item, out, attend.out_map);
}

Input Lowering::arrange_by(const LowerItem& item, const Input& x, const std::vector<int32_t>& map) {
  if (map.empty()) return x;
  const std::vector<int64_t> wide(map.begin(), map.end());
  return arrange(item, {x}, wide, DType::kF32);
}

void Lowering::lower_reference(const LowerItem& item) {
  Op op{ReferenceOp{}, {}, {}, section_, nodes_->add_single_node(item.node)};
  plan_.nodes = nodes_;
  auto& args = std::get<ReferenceOp>(op.args);
  for (size_t i = 0; i < item.n_inputs(); ++i) {
    const Operand& operand = item.op.inputs[i];
    op.in.push_back(item.has(i) ? input(item, i) : Input{});
    args.in_dims.push_back(operand.kind == Operand::Kind::kRow ? program_.values[static_cast<size_t>(operand.index)].dims : dims(item, i));
    args.in_bool.push_back(dtype(item, i) == DType::kBool);
  }
  // The value that selects rows is read too, so it must live until here.
  for (size_t i = 0; i < item.n_inputs(); ++i) {
    const ValueIndex selection = op.in[i].is_value() ? plan_.value(op.in[i].index).selection : kNoIndex;
    if (selection != kNoIndex) op.in.push_back(plan_.whole(selection));
  }
  for (size_t i = 0; i < item.op.outputs.size(); ++i) {
    const RowId id = item.op.outputs[i];
    op.out.push_back(kNoIndex);
    args.out_dims.emplace_back();
    if (id == kNoRow) continue;
    const RowValue& row = program_.values[static_cast<size_t>(id)];
    const ValueIndex value = plan_.add_value(std::string(row.name), element_count(selected(row.dims)), plan_dtype(row.dtype));
    if (has_selection(row.dims)) plan_.values.back().selection = value;
    op.out.back() = value;
    args.out_dims.back() = row.dims;
    rows_[static_cast<size_t>(id)] = plan_.whole(value);
  }
  plan_.ops.push_back(std::move(op));
}

Input Lowering::input(const LowerItem& item, size_t i) {
  if (!item.has(i)) return {};
  const Operand& operand = item.op.inputs[i];
  if (operand.kind == Operand::Kind::kRow) return of_row(operand.index);
  if (operand.kind == Operand::Kind::kTable)
    return {Input::Kind::kTable, operand.index, 0, element_count(program_.tables[static_cast<size_t>(operand.index)].dims)};
  const auto [known, fresh] = constants_of_.try_emplace(operand.index, -1);
  if (fresh) known->second = plan_.add_constant(plan_tensor(constant(item, i)));
  return {Input::Kind::kConstant, known->second, 0, plan_.constants[static_cast<size_t>(known->second)].size()};
}

Tensor Lowering::constant(const LowerItem& item, size_t i) {
  if (!item.is_constant(i)) return {};
  return take(constants_.get(program_.constants[static_cast<size_t>(item.op.inputs[i].index)].value));
}

DType Lowering::dtype(const LowerItem& item, size_t i) const {
  if (!item.has(i)) return DType::kUndefined;
  const Operand& operand = item.op.inputs[i];
  switch (operand.kind) {
    case Operand::Kind::kRow: return program_.values[static_cast<size_t>(operand.index)].dtype;
    case Operand::Kind::kTable: return program_.tables[static_cast<size_t>(operand.index)].dtype;
    default: return program_.constants[static_cast<size_t>(operand.index)].dtype;
  }
}

Dims Lowering::dims(const LowerItem& item, size_t i) const {
  if (!item.has(i)) return {};
  const Operand& operand = item.op.inputs[i];
  switch (operand.kind) {
    case Operand::Kind::kRow: return selected(program_.values[static_cast<size_t>(operand.index)].dims);
    case Operand::Kind::kTable: return program_.tables[static_cast<size_t>(operand.index)].dims;
    default: return program_.constants[static_cast<size_t>(operand.index)].dims;
  }
}

Dims Lowering::out_dims(const LowerItem& item, size_t i) const {
  return item.wants(i) ? selected(program_.values[static_cast<size_t>(item.op.outputs[i])].dims) : Dims{};
}

DType Lowering::out_dtype(const LowerItem& item, size_t i) const {
  return item.wants(i) ? program_.values[static_cast<size_t>(item.op.outputs[i])].dtype : DType::kUndefined;
}

Input Lowering::emit(const LowerItem& item, Op::Args args, std::vector<Input> in, int64_t size, DType dtype) {
  std::string name;
  for (const RowId id : item.op.outputs) {
    if (id != kNoRow && name.empty()) name = program_.values[static_cast<size_t>(id)].name;
  }
  const ValueIndex value = plan_.add_value(std::move(name), size, dtype);
  Op op{std::move(args), std::move(in), {value}, section_};
  for (const Input& read : op.in) {
    if (read.is_value() && plan_.value(read.index).selection != kNoIndex) op.selection = plan_.value(read.index).selection;
  }
  plan_.values.back().selection = op.selection;
  plan_.ops.push_back(std::move(op));
  return plan_.whole(value);
}

void Lowering::set(const LowerItem& item, size_t i, const Input& value) {
  if (item.wants(i)) rows_[static_cast<size_t>(item.op.outputs[i])] = value;
}

Plan lower(const Program& program, Constants& constants) { return Lowering(program, constants).run(); }

}  // namespace kvik::native
