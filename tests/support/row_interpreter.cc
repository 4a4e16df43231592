#include "support/row_interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/native/tables/extract.h"
#include "backend/native/tables/table_rows.h"
#include "onnx/eval/kernel.h"

namespace kvik::testing_support {
namespace {

using native::Attend;
using native::Operand;
using native::RowId;
using native::RowOp;

// A selection makes a dimension 0 or 1: whatever the elements say.
Tensor shaped(const Tensor& tensor, Dims dims) {
  int64_t known = 1;
  for (const int64_t size : dims) known *= size < 0 ? 1 : size;
  for (int64_t& size : dims) size = size < 0 ? tensor.size() / std::max<int64_t>(1, known) : size;
  return tensor.reshaped(dims);
}

Tensor expanded(const Tensor& tensor, Dims dims) {
  for (int64_t& size : dims) size = size < 0 ? 1 : size;
  const Dims rank = {static_cast<int64_t>(dims.size())};
  const std::vector<Tensor> inputs = {tensor, Tensor::of<int64_t>(rank, dims)};
  return onnx::run_kernel({.op = "Expand", .opset = 13, .outputs = {0}}, inputs).at(0);
}

// Element `at` of a row with the layout of the map.
float mapped(std::span<const float> row, const std::vector<int32_t>& map, int64_t at) {
  return row[static_cast<size_t>(map.empty() ? at : map[static_cast<size_t>(at)])];
}

float bias_of(const Attend& attend, int64_t head, int64_t distance) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  if (attend.from_source) return 0;
  if (attend.causal && distance < 0) return kHidden;
  if (attend.window > 0 && distance >= attend.window) return kHidden;
  float bias = 0;
  if (!attend.slopes.empty()) bias -= attend.slopes[static_cast<size_t>(head)] * static_cast<float>(distance);
  if (!attend.distance_bias.empty()) {
    const int64_t n = static_cast<int64_t>(attend.distance_bias.size()) / attend.n_heads;
    const int64_t at = std::clamp<int64_t>(distance - attend.first_distance, 0, n - 1);
    bias += attend.distance_bias[static_cast<size_t>(head * n + at)];
  }
  return bias;
}

float rounded(float x, const std::vector<Rounding>& roundings) {
  for (const Rounding& rounding : roundings) x = kvik::rounded(x, rounding);
  return x;
}

float score_of(const Attend& attend, float product) {
  const float scaled = rounded(attend.scale * product, attend.score_roundings);
  return attend.soft_cap > 0 ? attend.soft_cap * std::tanh(scaled / attend.soft_cap) : scaled;
}

int64_t kv_head_of(const Attend& attend, int64_t head) {
  return attend.kv_head_of.empty() ? head / (attend.n_heads / attend.n_kv_heads) : attend.kv_head_of[static_cast<size_t>(head)];
}

}  // namespace

RowInterpreter::RowInterpreter(const native::Program& program) : program_(program), constants_(*program.flat) {}

Tensor RowInterpreter::operand(const Operand& operand, const Values& values, int64_t position) {
  const auto at = static_cast<size_t>(operand.index);
  switch (operand.kind) {
    case Operand::Kind::kNone: return {};
    case Operand::Kind::kRow: return values[at];
    case Operand::Kind::kConstant: return native::take(constants_.get(program_.constants[at].value));
    case Operand::Kind::kTable: return table_row(at, position);
  }
  return {};
}

Tensor RowInterpreter::table_row(size_t table, int64_t position) {
  const native::PositionTable& of = program_.tables[table];
  std::shared_ptr<const native::PositionRecipe>& recipe = recipes_[table];
  if (recipe == nullptr)
    recipe = std::make_shared<const native::PositionRecipe>(native::take(native::extract_recipe(program_, of, constants_)));
  native::PlanTable rows;
  rows.limit = of.limit;
  rows.recipe = recipe;
  const Tensor row = native::table_rows(rows, position, 1).reshaped(of.dims);
  if (of.dtype != DType::kBool) return row;
  Tensor booleans(DType::kBool, of.dims);
  std::ranges::transform(row.data<float>(), booleans.mutable_data<bool>().begin(), [](float x) { return x != 0; });
  return booleans;
}

void RowInterpreter::run_op(const RowOp& op, Values& values, int64_t position) {
  std::vector<Tensor> inputs;
  for (const Operand& one : op.inputs) inputs.push_back(operand(one, values, position));
  const auto set = [&](RowId row, Tensor tensor) {
    if (row != native::kNoRow) values[static_cast<size_t>(row)] = native::as_f32(std::move(tensor));
  };
  const auto dims = [&] { return program_.values[static_cast<size_t>(op.outputs.at(0))].dims; };
  if (op.kind == RowOp::Kind::kReshape) return set(op.outputs.at(0), shaped(inputs.at(0), dims()));
  if (op.kind == RowOp::Kind::kExpand) return set(op.outputs.at(0), expanded(inputs.at(0), dims()));
  const std::vector<Tensor> outputs = onnx::run_kernel(program_.flat->graph.nodes[static_cast<size_t>(op.node)], inputs);
  for (size_t i = 0; i < op.outputs.size() && i < outputs.size(); ++i) set(op.outputs[i], outputs[i]);
}

RowInterpreter::KeyValue RowInterpreter::key_value(const Attend& attend, const Values& values) const {
  KeyValue result;
  const Tensor &k = values[static_cast<size_t>(attend.k)], &v = values[static_cast<size_t>(attend.v)];
  for (int64_t i = 0; i < attend.n_kv_heads * attend.key_dim; ++i) result.key.push_back(mapped(k.data<float>(), attend.k_map, i));
  for (int64_t i = 0; i < attend.n_kv_heads * attend.value_dim; ++i) result.value.push_back(mapped(v.data<float>(), attend.v_map, i));
  return result;
}

void RowInterpreter::attend(const Attend& attend, const std::map<int64_t, KeyValue>& cache, Values& values, int64_t position) const {
  const std::span<const float> q = values[static_cast<size_t>(attend.q)].data<float>();
  std::vector<float> heads(static_cast<size_t>(attend.n_heads * attend.value_dim));
  for (int64_t h = 0; h < attend.n_heads; ++h) {
    const int64_t from = kv_head_of(attend, h);
    std::vector<float> scores;
    for (const auto& [at, kv] : cache) {
      float product = 0;
      for (int64_t d = 0; d < attend.key_dim; ++d)
        product += mapped(q, attend.q_map, h * attend.key_dim + d) * kv.key[static_cast<size_t>(from * attend.key_dim + d)];
      scores.push_back(score_of(attend, product) + bias_of(attend, h, position - at));
    }
    const bool has_sink = !attend.sinks.empty();
    float largest = has_sink ? attend.sinks[static_cast<size_t>(h)] : -std::numeric_limits<float>::infinity();
    for (const float score : scores) largest = std::max(largest, score);
    float sum = has_sink ? std::exp(attend.sinks[static_cast<size_t>(h)] - largest) : 0;
    for (float& score : scores) sum += score = std::exp(score - largest);
    size_t i = 0;
    for (const auto& [at, kv] : cache) {
      const float weight = rounded(scores[i++] / sum, attend.weight_roundings);
      for (int64_t d = 0; d < attend.value_dim; ++d)
        heads[static_cast<size_t>(h * attend.value_dim + d)] += weight * kv.value[static_cast<size_t>(from * attend.value_dim + d)];
    }
  }
  Tensor out(DType::kF32, program_.values[static_cast<size_t>(attend.out)].dims);
  for (int64_t i = 0; i < out.size(); ++i) out.mutable_data<float>()[static_cast<size_t>(i)] = mapped(heads, attend.out_map, i);
  values[static_cast<size_t>(attend.out)] = out;
}

void RowInterpreter::set_source(int sequence, const std::map<int, Tensor>& given, int n_positions) {
  Cache& cache = sources_[sequence];
  cache.assign(program_.attends.size(), {});
  for (int64_t position = 0; position < n_positions; ++position) {
    Values values(program_.values.size());
    for (const native::SourceInput& input : program_.source_inputs) {
      const Tensor at = Tensor::scalar<int64_t>(position);
      const std::vector<Tensor> inputs = {given.at(input.port), at};
      const onnx::Node gather{
          .op = "Gather", .opset = 13, .outputs = {0}, .attributes = {{"axis", static_cast<int64_t>(input.position_axis)}}};
      const Tensor row = onnx::run_kernel(gather, inputs).at(0);
      values[static_cast<size_t>(input.row)] = row.reshaped(program_.values[static_cast<size_t>(input.row)].dims);
    }
    for (const RowOp& op : program_.source_ops) run_op(op, values, position);
    for (size_t a = 0; a < program_.attends.size(); ++a) {
      if (program_.attends[a].from_source) cache[a][position] = key_value(program_.attends[a], values);
    }
  }
}

std::vector<std::vector<float>> RowInterpreter::run_together(std::span<const backend::Row> rows, std::vector<Values>& values) {
  for (const RowOp& op : program_.ops) {
    if (op.kind != RowOp::Kind::kAttend) {
      for (size_t i = 0; i < rows.size(); ++i) run_op(op, values[i], rows[i].position);
      continue;
    }
    const auto a = static_cast<size_t>(op.attend);
    const Attend& attention = program_.attends[a];
    for (size_t i = 0; i < rows.size() && !attention.from_source; ++i) {
      Cache& cache = caches_[rows[i].sequence];
      cache.resize(program_.attends.size());
      cache[a][rows[i].position] = key_value(attention, values[i]);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      const Cache& cache = attention.from_source ? sources_.at(rows[i].sequence) : caches_.at(rows[i].sequence);
      attend(attention, cache[a], values[i], rows[i].position);
    }
  }
  std::vector<std::vector<float>> outputs;
  for (const Values& row : values) {
    const std::span<const float> out = row[static_cast<size_t>(program_.output)].data<float>();
    outputs.emplace_back(out.begin(), out.end());
  }
  return outputs;
}

std::vector<std::vector<float>> RowInterpreter::run(std::span<const backend::Row> rows) { return run(rows, {}); }

std::vector<std::vector<float>> RowInterpreter::run(std::span<const backend::Row> rows, const Tensor& embeddings) {
  std::vector<std::vector<float>> outputs;
  const bool one_by_one = program_.one_token || !program_.registers.empty();
  const size_t at_once = one_by_one ? 1 : std::max<size_t>(1, rows.size());
  for (size_t first = 0; first < rows.size(); first += at_once) {
    const std::span<const backend::Row> some = rows.subspan(first, at_once);
    std::vector<Values> values(some.size(), Values(program_.values.size()));
    for (size_t i = 0; i < some.size(); ++i) {
      if (program_.token != native::kNoRow) {
        const native::RowValue& token = program_.values[static_cast<size_t>(program_.token)];
        values[i][static_cast<size_t>(program_.token)] = token.dtype == DType::kI32 ? Tensor::of<int32_t>(token.dims, {some[i].token})
                                                                                    : Tensor::of<int64_t>(token.dims, {some[i].token});
      }
      if (program_.embedding != native::kNoRow) {
        const int64_t width = embeddings.dim(-1);
        const std::span<const float> all = embeddings.data<float>();
        values[i][static_cast<size_t>(program_.embedding)] =
            Tensor::of<float>(program_.values[static_cast<size_t>(program_.embedding)].dims,
                              all.subspan((first + i) * static_cast<size_t>(width), static_cast<size_t>(width)));
      }
    }
    std::vector<Tensor>& registers = registers_[some[0].sequence];
    for (const native::Register& one : program_.registers) {
      const native::RowValue& value = program_.values[static_cast<size_t>(one.in)];
      const auto r = static_cast<size_t>(&one - program_.registers.data());
      if (registers.size() <= r) registers.emplace_back(value.dtype, value.dims);
      values[0][static_cast<size_t>(one.in)] = registers[r].reshaped(value.dims);
    }
    for (std::vector<float>& row : run_together(some, values)) outputs.push_back(std::move(row));
    for (size_t r = 0; r < program_.registers.size(); ++r) registers[r] = values[0][static_cast<size_t>(program_.registers[r].out)];
  }
  return outputs;
}

}  // namespace kvik::testing_support
