#include "backend/native/label/emitter.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvik::native {
namespace {

using onnx::ValueId;

constexpr RowId kDropped = kNoRow;

void mark(std::vector<bool>& live, RowId row) {
  if (row != kNoRow) live[static_cast<size_t>(row)] = true;
}

// From the last to the first: an op is live if a later one reads its output.
void keep_live(std::vector<RowOp>& ops, std::vector<bool>& live) {
  std::vector<RowOp> kept;
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    const bool wanted =
        std::any_of(op->outputs.begin(), op->outputs.end(), [&](RowId row) { return row != kNoRow && live[static_cast<size_t>(row)]; });
    if (!wanted) continue;
    for (const Operand& operand : op->inputs) {
      if (operand.kind == Operand::Kind::kRow) mark(live, operand.index);
    }
    kept.push_back(std::move(*op));
  }
  std::reverse(kept.begin(), kept.end());
  ops = std::move(kept);
}

template <class Visit>
void each_operand(Program& program, Operand::Kind kind, const Visit& visit) {
  for (std::vector<RowOp>* ops : {&program.source_ops, &program.ops}) {
    for (RowOp& op : *ops) {
      for (Operand& operand : op.inputs) {
        if (operand.kind == kind) visit(operand);
      }
    }
  }
}

}  // namespace

Emitter::Emitter(std::shared_ptr<FlatGraph> flat, const Labels& labels) : labels_(&labels) { program_.flat = std::move(flat); }

RowId Emitter::row(ValueId value) {
  const auto [found, is_new] = rows_.try_emplace(value, static_cast<RowId>(program_.values.size()));
  if (is_new) {
    const Label& label = (*labels_)[value];
    program_.values.push_back({program_.flat->graph.name_of(value), label.dtype, row_dims(label.axes)});
    value_of_row_.push_back(value);
  }
  return found->second;
}

Operand Emitter::operand(ValueId value, const Axes& fitted) {
  const Label& label = (*labels_)[value];
  if (label.kind == Label::Kind::kRow) return {Operand::Kind::kRow, row(value)};
  if (label.kind == Label::Kind::kConstant) {
    const auto [found, is_new] = constants_.try_emplace(value, static_cast<int32_t>(program_.constants.size()));
    if (is_new) program_.constants.push_back({value, label.dtype, label.dims});
    return {Operand::Kind::kConstant, found->second};
  }
  const std::string key = fmt::format("{} {}", value, to_string(fitted));
  const auto [found, is_new] = known_auxiliaries_.try_emplace(key, static_cast<int32_t>(auxiliaries_.size()));
  if (is_new) auxiliaries_.push_back({value, fitted});
  return {Operand::Kind::kTable, found->second};
}

Operand Emitter::constant(Tensor tensor, std::string_view name) {
  const DType dtype = tensor.dtype();
  const Dims dims = tensor.dims();
  const ValueId value = program_.flat->add_constant(std::string(name) + "/constant", std::move(tensor));
  program_.constants.push_back({value, dtype, dims});
  return {Operand::Kind::kConstant, static_cast<int32_t>(program_.constants.size() - 1)};
}

void Emitter::add(RowOp op, bool for_source) { (for_source ? program_.source_ops : program_.ops).push_back(std::move(op)); }

int Emitter::add_attention(onnx::NodeId node, ValueId out) {
  const auto index = static_cast<int>(program_.attends.size());
  Attend& attend = program_.attends.emplace_back();
  attend.out = row(out);
  attend.node = program_.flat->graph.nodes[static_cast<size_t>(node)].describe();
  add({.kind = RowOp::Kind::kAttend, .node = node, .outputs = {program_.attends.back().out}, .attend = index}, false);
  return index;
}

void Emitter::set_attention(int index, Attend attend, const Operands& operands) {
  Attend& known = program_.attends[static_cast<size_t>(index)];
  attend.q = row(operands.q);
  attend.k = row(operands.k);
  attend.v = row(operands.v);
  attend.out = known.out;
  attend.node = known.node;
  known = std::move(attend);
  const auto op = std::find_if(program_.ops.begin(), program_.ops.end(), [&](const RowOp& one) { return one.attend == index; });
  for (const RowId operand : {known.q, known.k, known.v}) op->inputs.push_back({Operand::Kind::kRow, operand});
}

void Emitter::drop_dead() {
  std::vector<bool> live(program_.values.size());
  mark(live, program_.output);
  for (const Register& one : program_.registers) mark(live, one.out);
  keep_live(program_.ops, live);
  keep_live(program_.source_ops, live);
}

Expected<> Emitter::close() {
  drop_dead();
  std::vector<bool> given(program_.values.size()), source_given(program_.values.size());
  mark(given, program_.token);
  mark(given, program_.embedding);
  for (const Register& one : program_.registers) mark(given, one.in);
  for (const SourceInput& input : program_.source_inputs) mark(source_given, input.row);
  KVIK_CHECK(check_operands(program_.source_ops, source_given, {}));
  KVIK_CHECK(check_operands(program_.ops, given, source_given));
  if (!given[static_cast<size_t>(program_.output)]) return refuse_row("the graph's output", program_.output);
  return {};
}

Expected<> Emitter::check_operands(const std::vector<RowOp>& ops, std::vector<bool>& made, const std::vector<bool>& source_made) const {
  for (const RowOp& op : ops) {
    const bool crosses = op.kind == RowOp::Kind::kAttend && program_.attends[static_cast<size_t>(op.attend)].from_source;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i].kind != Operand::Kind::kRow) continue;
      const auto at = static_cast<size_t>(op.inputs[i].index);
      const bool is_made = crosses && i > 0 ? source_made[at] : made[at];
      if (!is_made) return refuse_row(program_.flat->graph.nodes[static_cast<size_t>(op.node)].describe(), op.inputs[i].index);
    }
    for (const RowId row : op.outputs) mark(made, row);
  }
  return {};
}

Refusal Emitter::refuse_row(const std::string& reader, RowId row) const {
  const ValueId value = value_of_row_[static_cast<size_t>(row)];
  const Label& label = (*labels_)[value];
  if (label.poison >= 0) return refuse(fmt::format("{}, which {} reads", labels_->reasons[static_cast<size_t>(label.poison)], reader));
  return refuse(fmt::format("{} reads '{}', which does not depend only on the row: its axes are {}{}", reader,
                            program_.flat->graph.name_of(value), to_string(label.axes), label.is_score ? " (attention scores)" : ""));
}

Expected<> Emitter::resolve(const std::function<Expected<Operand>(const Auxiliary&)>& made_of) {
  std::vector<std::optional<Operand>> resolved(auxiliaries_.size());
  std::vector<Operand*> operands;
  each_operand(program_, Operand::Kind::kTable, [&](Operand& operand) { operands.push_back(&operand); });
  for (Operand* operand : operands) {
    const auto at = static_cast<size_t>(operand->index);
    if (!resolved[at]) { KVIK_TRY(resolved[at], made_of(auxiliaries_[at])); }
    *operand = *resolved[at];
  }
  return {};
}

Program Emitter::finish() {
  Program& p = program_;
  std::vector<int32_t> row_to(p.values.size(), kDropped), constant_to(p.constants.size(), kDropped), attend_to(p.attends.size(), kDropped);
  std::vector<RowValue> values;
  std::vector<Constant> constants;
  std::vector<Attend> attends;
  const auto keep = [](auto& from, auto& kept, std::vector<int32_t>& to, int32_t& index) {
    if (index < 0) return;
    int32_t& moved = to[static_cast<size_t>(index)];
    if (moved == kDropped) {
      moved = static_cast<int32_t>(kept.size());
      kept.push_back(std::move(from[static_cast<size_t>(index)]));
    }
    index = moved;
  };
  const auto keep_row = [&](RowId& row) { keep(p.values, values, row_to, row); };
  for (RowId* row : {&p.token, &p.embedding, &p.output}) keep_row(*row);
  for (SourceInput& input : p.source_inputs) keep_row(input.row);
  for (Register& one : p.registers) {
    keep_row(one.in);
    keep_row(one.out);
  }
  for (std::vector<RowOp>* ops : {&p.source_ops, &p.ops}) {
    for (RowOp& op : *ops) {
      for (RowId& row : op.outputs) keep_row(row);
      if (op.attend < 0) continue;
      keep(p.attends, attends, attend_to, op.attend);
    }
  }
  each_operand(p, Operand::Kind::kRow, [&](Operand& operand) { keep_row(operand.index); });
  each_operand(p, Operand::Kind::kConstant, [&](Operand& operand) { keep(p.constants, constants, constant_to, operand.index); });
  for (Attend& attend : attends) {
    for (RowId* row : {&attend.q, &attend.k, &attend.v, &attend.out}) keep_row(*row);
  }
  p.values = std::move(values);
  p.constants = std::move(constants);
  p.attends = std::move(attends);
  return std::move(program_);
}

}  // namespace kvik::native
