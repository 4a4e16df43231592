#include "support/row_runner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/eval/kernel.h"

namespace kvik::testing_support {
namespace {

using native::Attend;
using native::Operand;
using native::RowOp;

constexpr int64_t kChunk = 32;
constexpr int kSource = -1;

// -1 stands for 0 or 1 rows of a selection.
Dims filled(Dims dims, int64_t n_elements) {
  int64_t known = 1;
  for (const int64_t dim : dims) known *= dim < 0 ? 1 : dim;
  bool first = true;
  for (int64_t& dim : dims) {
    if (dim >= 0) continue;
    dim = first && known > 0 ? n_elements / known : 1;
    first = false;
  }
  return dims;
}

std::vector<float> picked(const Tensor& row, const std::vector<int32_t>& map) {
  const std::span<const float> data = row.data<float>();
  if (map.empty()) return {data.begin(), data.end()};
  std::vector<float> result;
  for (const int32_t index : map) result.push_back(data[static_cast<size_t>(index)]);
  return result;
}

double bias_of(const Attend& a, int64_t h, int64_t distance) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  if (a.from_source) return 0;
  if ((a.causal && distance < 0) || (a.window > 0 && distance >= a.window)) return kNever;
  if (!a.slopes.empty()) return -static_cast<double>(a.slopes[static_cast<size_t>(h)]) * static_cast<double>(distance);
  if (a.distance_bias.empty()) return 0;
  const auto n = static_cast<int64_t>(a.distance_bias.size()) / a.n_heads;
  return static_cast<double>(a.distance_bias[static_cast<size_t>(h * n + std::clamp<int64_t>(distance - a.first_distance, 0, n - 1))]);
}

}  // namespace

RowRunner::RowRunner(const native::Program& program) : program_(program), constants_(*program.flat) {}

Tensor RowRunner::operand(const Operand& operand, const Values& values, int64_t position) {
  switch (operand.kind) {
    case Operand::Kind::kNone: return {};
    case Operand::Kind::kRow: return values[static_cast<size_t>(operand.index)];
    case Operand::Kind::kConstant: return constants_.get(program_.constants[static_cast<size_t>(operand.index)].value);
    case Operand::Kind::kTable: break;
  }
  const native::PositionTable& table = program_.tables[static_cast<size_t>(operand.index)];
  Tensor& chunk = table_chunks_[{operand.index, position / kChunk}];
  const int64_t first = position / kChunk * kChunk;
  if (!chunk.defined()) chunk = table.rows(first, table.limit > 0 ? std::min(kChunk, table.limit - first) : kChunk);
  const size_t bytes = chunk.size_bytes() / static_cast<size_t>(chunk.dim(0));
  Tensor row(table.dtype, table.dims);
  const auto from = chunk.bytes().subspan(bytes * static_cast<size_t>(position - first), bytes);
  std::copy(from.begin(), from.end(), row.mutable_bytes().begin());
  return row;
}

void RowRunner::run_op(const RowOp& op, Values& values, int64_t position) {
  const auto& node = program_.flat->graph.nodes[static_cast<size_t>(op.node)];
  if (op.kind == RowOp::Kind::kReshape || op.kind == RowOp::Kind::kExpand) {
    const Tensor from = operand(op.inputs[0], values, position);
    Dims dims = filled(program_.values[static_cast<size_t>(op.outputs[0])].dims, from.size());
    if (op.kind == RowOp::Kind::kReshape) {
      values[static_cast<size_t>(op.outputs[0])] = from.reshaped(dims);
      return;
    }
    const onnx::Node expand = {.op = "Expand", .name = node.name, .opset = 17, .inputs = {0, 1}, .outputs = {2}};
    const std::vector<Tensor> inputs = {from, Tensor::of<int64_t>({static_cast<int64_t>(dims.size())}, dims)};
    values[static_cast<size_t>(op.outputs[0])] = onnx::run_kernel(expand, inputs).at(0);
    return;
  }
  std::vector<Tensor> inputs;
  for (const Operand& one : op.inputs) inputs.push_back(operand(one, values, position));
  const std::vector<Tensor> outputs = onnx::run_kernel(node, inputs);
  for (size_t i = 0; i < op.outputs.size() && i < outputs.size(); ++i) {
    if (op.outputs[i] != native::kNoRow) values[static_cast<size_t>(op.outputs[i])] = native::as_f32(outputs[i]);
  }
}

void RowRunner::append(int attend, const Row& row, const Values& values) {
  const Attend& a = program_.attends[static_cast<size_t>(attend)];
  const auto at = [&](native::RowId id) { return values[static_cast<size_t>(id)]; };
  caches_[{attend, a.from_source ? kSource : row.sequence}][row.position] = {picked(at(a.k), a.k_map), picked(at(a.v), a.v_map)};
}

Tensor RowRunner::attend(int attend, const Row& row, const Values& values) {
  const Attend& a = program_.attends[static_cast<size_t>(attend)];
  const std::vector<float> q = picked(values[static_cast<size_t>(a.q)], a.q_map);
  std::vector<double> heads;
  for (int64_t h = 0; h < a.n_heads; ++h) {
    const int64_t kv = a.kv_head_of.empty() ? h / (a.n_heads / a.n_kv_heads) : a.kv_head_of[static_cast<size_t>(h)];
    double sum = a.sinks.empty() ? 0 : std::exp(static_cast<double>(a.sinks[static_cast<size_t>(h)]));
    std::vector<double> out(static_cast<size_t>(a.value_dim), 0);
    for (const auto& [position, entry] : caches_[{attend, a.from_source ? kSource : row.sequence}]) {
      double dot = 0;
      for (int64_t d = 0; d < a.key_dim; ++d)
        dot += static_cast<double>(q[static_cast<size_t>(h * a.key_dim + d)]) *
               static_cast<double>(entry.k[static_cast<size_t>(kv * a.key_dim + d)]);
      double score = dot * static_cast<double>(a.scale);
      if (a.soft_cap != 0) score = static_cast<double>(a.soft_cap) * std::tanh(score / static_cast<double>(a.soft_cap));
      const double weight = std::exp(score + bias_of(a, h, row.position - position));
      sum += weight;
      for (int64_t d = 0; d < a.value_dim; ++d)
        out[static_cast<size_t>(d)] += weight * static_cast<double>(entry.v[static_cast<size_t>(kv * a.value_dim + d)]);
    }
    for (const double x : out) heads.push_back(x / sum);
  }
  Tensor result(DType::kF32, program_.values[static_cast<size_t>(a.out)].dims);
  const std::span<float> target = result.mutable_data<float>();
  for (size_t i = 0; i < target.size(); ++i)
    target[i] = static_cast<float>(heads[a.out_map.empty() ? i : static_cast<size_t>(a.out_map[i])]);
  return result;
}

void RowRunner::run_ops(const std::vector<RowOp>& ops, std::span<const Row> rows, std::vector<Values>& values) {
  for (const RowOp& op : ops) {
    if (op.kind != RowOp::Kind::kAttend) {
      for (size_t i = 0; i < rows.size(); ++i) run_op(op, values[i], rows[i].position);
      continue;
    }
    const Attend& a = program_.attends[static_cast<size_t>(op.attend)];
    for (size_t i = 0; i < rows.size() && !a.from_source; ++i) append(op.attend, rows[i], values[i]);
    for (size_t i = 0; i < rows.size(); ++i) values[i][static_cast<size_t>(a.out)] = attend(op.attend, rows[i], values[i]);
  }
}

std::vector<RowRunner::Values> RowRunner::fresh_values(std::span<const Row> rows) {
  std::vector<Values> values(rows.size(), Values(program_.values.size()));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (program_.token == native::kNoRow) continue;
    const native::RowValue& token = program_.values[static_cast<size_t>(program_.token)];
    values[i][static_cast<size_t>(program_.token)] = token.dtype == DType::kI32
                                                         ? Tensor::of<int32_t>(token.dims, {static_cast<int32_t>(rows[i].token)})
                                                         : Tensor::of<int64_t>(token.dims, {static_cast<int64_t>(rows[i].token)});
  }
  return values;
}

void RowRunner::set_source(const std::vector<Tensor>& inputs) {
  int64_t n = 0;
  for (size_t i = 0; i < inputs.size(); ++i) n = inputs[i].dim(program_.source_inputs[i].position_axis);
  std::vector<Row> rows;
  for (int64_t p = 0; p < n; ++p) rows.push_back({.position = p});
  std::vector<Values> values(rows.size(), Values(program_.values.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const native::SourceInput& input = program_.source_inputs[i];
    const onnx::Node gather = {.op = "Gather",
                               .opset = 17,
                               .inputs = {0, 1},
                               .outputs = {2},
                               .attributes = {{.name = "axis", .data = static_cast<int64_t>(input.position_axis)}}};
    for (int64_t p = 0; p < n; ++p) {
      const std::vector<Tensor> operands = {inputs[i], Tensor::of<int64_t>({1}, {p})};
      values[static_cast<size_t>(p)][static_cast<size_t>(input.row)] =
          native::as_f32(onnx::run_kernel(gather, operands).at(0)).reshaped(program_.values[static_cast<size_t>(input.row)].dims);
    }
  }
  run_ops(program_.source_ops, rows, values);
  for (size_t a = 0; a < program_.attends.size(); ++a) {
    if (!program_.attends[a].from_source) continue;
    caches_.erase({static_cast<int>(a), kSource});
    for (size_t i = 0; i < rows.size(); ++i) append(static_cast<int>(a), rows[i], values[i]);
  }
}

std::vector<float> RowRunner::run_alone(const Row& row) {
  std::vector<Values> values = fresh_values(std::span(&row, 1));
  for (size_t i = 0; i < program_.registers.size(); ++i) {
    const native::RowId in = program_.registers[i].in;
    Tensor& kept = registers_[{i, row.sequence}];
    const native::RowValue& value = program_.values[static_cast<size_t>(in)];
    if (!kept.defined()) kept = Tensor(value.dtype, value.dims);
    values[0][static_cast<size_t>(in)] = kept;
  }
  run_ops(program_.ops, std::span(&row, 1), values);
  for (size_t i = 0; i < program_.registers.size(); ++i) {
    const Tensor& out = values[0][static_cast<size_t>(program_.registers[i].out)];
    registers_[{i, row.sequence}] = out.reshaped(program_.values[static_cast<size_t>(program_.registers[i].in)].dims);
  }
  return picked(values[0][static_cast<size_t>(program_.output)], {});
}

std::vector<std::vector<float>> RowRunner::run(std::span<const Row> rows) {
  std::vector<std::vector<float>> results;
  if (program_.one_token || !program_.registers.empty()) {
    for (const Row& row : rows) results.push_back(run_alone(row));
    return results;
  }
  std::vector<Values> values = fresh_values(rows);
  run_ops(program_.ops, rows, values);
  for (const Values& one : values) results.push_back(picked(one[static_cast<size_t>(program_.output)], {}));
  return results;
}

}  // namespace kvik::testing_support
