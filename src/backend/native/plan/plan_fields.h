#pragma once

#include "backend/native/plan/plan_archive.h"
#include "kvik/error.h"

// The stored fields of a plan, in order. Every function works in both directions: `a` is a PlanWriter or a PlanReader.
namespace kvik::native {

// Tensors and graphs (plan_tensors.cc).
void tensor_field(PlanWriter& a, Tensor& tensor);
void tensor_field(PlanReader& a, Tensor& tensor);
void data_field(PlanWriter& a, onnx::TensorData& data);
void data_field(PlanReader& a, onnx::TensorData& data);
void graph_field(PlanWriter& a, std::shared_ptr<const OwnedGraph>& graph, bool nodes_stand_alone);
void graph_field(PlanReader& a, std::shared_ptr<const OwnedGraph>& graph, bool nodes_stand_alone);
void file_field(PlanWriter& a, std::string& file);
void file_field(PlanReader& a, std::string& file);

template <class A>
void field(A& a, int64_t& value) {
  a.number(value);
}
template <class A>
void field(A& a, int32_t& value) {
  a.number(value);
}
template <class A>
void field(A& a, float& value) {
  a.number(value);
}
template <class A>
void field(A& a, bool& value) {
  a.flag(value, 0);
}
template <class A>
void field(A& a, std::string& value) {
  a.text(value);
}
template <class A>
void field(A& a, DType& value) {
  a.enumeration(value, static_cast<DType>(kLastDType));
}
template <class A>
void field(A& a, Tensor& value) {
  tensor_field(a, value);
}

// Elements are read one by one, so that a false count cannot cause a large allocation.
template <class A, class T>
void field(A& a, std::vector<T>& values) {
  if constexpr (A::kReads) {
    const size_t n = a.count();
    values.clear();
    for (size_t i = 0; i < n; ++i) {
      T value{};
      field(a, value);
      values.push_back(std::move(value));
    }
  } else {
    auto n = static_cast<uint64_t>(values.size());
    a.number(n);
    for (size_t i = 0; i < values.size(); ++i) {
      T value = values[i];
      field(a, value);
    }
  }
}

template <class A, class T>
void field(A& a, std::optional<T>& value) {
  bool has = value.has_value();
  a.flag(has, 0);
  if (!has) return value.reset();
  if (!value) value.emplace();
  field(a, *value);
}

template <class A>
void field(A& a, Factor& factor) {
  field(a, factor.size);
  a.enumeration(factor.symbol, Symbol::kSelection);
  field(a, factor.selection);
}

template <class A>
void field(A& a, onnx::Dim& dim) {
  field(a, dim.value);
}

template <class A>
void field(A& a, analysis::Port& port) {
  field(a, port.name);
  field(a, port.dtype);
  field(a, port.dims);
  field(a, port.has_shape);
  a.enumeration(port.role, analysis::Role::kOther);
  field(a, port.means_past);
  field(a, port.less_one);
  field(a, port.unclear_count);
}

template <class A>
void field(A& a, PositionFeed& feed) {
  a.enumeration(feed.kind, PositionFeed::Kind::kSize);
  field(a, feed.port);
  field(a, feed.axes);
  field(a, feed.first);
  field(a, feed.last);
}

template <class A>
void field(A& a, PositionRecipe& recipe) {
  graph_field(a, recipe.graph, false);
  field(a, recipe.feeds);
  field(a, recipe.axes);
  field(a, recipe.dtype);
  field(a, recipe.form.has_past);
  field(a, recipe.form.one_token);
  field(a, recipe.form.one_sequence);
  field(a, recipe.form.buffer);
  field(a, recipe.form.one_position);
  field(a, recipe.encodes);
  field(a, recipe.vocab);
}

template <class A>
void field(A& a, PlanTable& table) {
  field(a, table.name);
  field(a, table.dtype);
  field(a, table.size);
  field(a, table.limit);
  bool has = table.recipe != nullptr;
  a.flag(has, 0);
  if (has) {
    auto recipe = table.recipe == nullptr ? std::make_shared<PositionRecipe>() : std::make_shared<PositionRecipe>(*table.recipe);
    field(a, *recipe);
    if constexpr (A::kReads) table.recipe = recipe;
  }
  field(a, table.lookup);
  field(a, table.elements);
  field(a, table.negative);
}

template <class A>
void field(A& a, PlanValue& value) {
  field(a, value.name);
  field(a, value.dtype);
  field(a, value.size);
  field(a, value.selection);
}

template <class A>
void field(A& a, Input& input) {
  a.enumeration(input.kind, Input::Kind::kTable);
  field(a, input.index);
  field(a, input.offset);
  field(a, input.size);
}

template <class A>
void field(A& a, Spread& spread) {
  a.enumeration(spread, Spread::kOne);
}
template <class A>
void field(A& a, Unary& op) {
  a.enumeration(op, static_cast<Unary>(kUnaryCount - 1));
}
template <class A>
void field(A& a, Binary& op) {
  a.enumeration(op, static_cast<Binary>(kBinaryCount - 1));
}
template <class A>
void field(A& a, Reduce& op) {
  a.enumeration(op, static_cast<Reduce>(kReduceCount - 1));
}
template <class A>
void field(A& a, Move::Run& run) {
  field(a, run.input);
  field(a, run.from);
  field(a, run.to);
  field(a, run.count);
}

template <class A, class... T>
void fields(A& a, T&... values) {
  (field(a, values), ...);
}

template <class A>
void field(A& a, Embed& op) {
  fields(a, op.weight);
}
template <class A>
void field(A& a, Matmul& op) {
  fields(a, op.weights, op.shared);
}
template <class A>
void field(A& a, UnaryOp& op) {
  fields(a, op.op);
}
template <class A>
void field(A& a, BinaryOp& op) {
  fields(a, op.op, op.a, op.b, op.groups);
}
template <class A>
void field(A& a, GateOp& op) {
  fields(a, op.op);
}
template <class A>
void field(A& a, ClipOp& op) {
  fields(a, op.low, op.high);
}
template <class A>
void field(A& a, WhereOp& op) {
  fields(a, op.condition, op.yes, op.no, op.groups);
}
template <class A>
void field(A& a, NormOp& op) {
  fields(a, op.centered, op.epsilon, op.groups);
}
template <class A>
void field(A& a, SkipNormOp& op) {
  fields(a, op.norm);
}
template <class A>
void field(A& a, SoftmaxOp& op) {
  fields(a, op.groups, op.log);
}
template <class A>
void field(A& a, ReduceOp& op) {
  fields(a, op.op, op.groups);
}
template <class A>
void field(A& a, RotaryOp& op) {
  fields(a, op.n_heads, op.head_dim, op.n_pairs, op.interleaved);
}
template <class A>
void field(A& a, Move& op) {
  fields(a, op.runs);
}
template <class A>
void field(A& a, AppendOp& op) {
  fields(a, op.attend);
}
template <class A>
void field(A& a, AttendOp& op) {
  fields(a, op.attend);
}
template <class A>
void field(A& a, ReadRegister& op) {
  fields(a, op.index);
}
template <class A>
void field(A& a, WriteRegister& op) {
  fields(a, op.index);
}
template <class A>
void field(A& a, ReferenceOp& op) {
  fields(a, op.in_dims, op.out_dims, op.in_bool);
}

// The alternative of a variant, by its number.
template <size_t I = 0, class... T>
void emplace(std::variant<T...>& variant, size_t index) {
  if constexpr (I < sizeof...(T)) {
    if (index == I)
      variant.template emplace<I>();
    else
      emplace<I + 1>(variant, index);
  }
}

template <class A>
void field(A& a, Op& op) {
  auto index = static_cast<uint8_t>(op.args.index());
  a.enumeration(index, static_cast<uint8_t>(std::variant_size_v<Op::Args> - 1));
  if constexpr (A::kReads) emplace(op.args, index);
  std::visit([&](auto& args) { field(a, args); }, op.args);
  fields(a, op.in, op.out);
  a.enumeration(op.section, Op::Section::kTail);
  fields(a, op.node, op.selection, op.fused_by);
}

template <class A>
void field(A& a, ModelTensor& tensor) {
  field(a, tensor.name);
  data_field(a, tensor.data);
  bool computed = tensor.expression != nullptr;
  a.flag(computed, 0);
  if (computed) graph_field(a, tensor.expression, false);
  field(a, tensor.in_file);
}

template <class A>
void field(A& a, WeightPart& part) {
  fields(a, part.value, part.n_major, part.slice, part.k, part.n);
  a.enumeration(part.quantization.kind, Quantization::Kind::kInteger);
  fields(a, part.quantization.bits, part.quantization.block, part.quantization.axis, part.scales, part.zero_points);
}

template <class A>
void field(A& a, PlanWeight& weight) {
  fields(a, weight.k, weight.n, weight.parts);
  a.enumeration(weight.activations, Activations::kBytes);
  fields(a, weight.row_scale, weight.row_zero_point);
}

template <class A>
void field(A& a, Rounding& rounding) {
  fields(a, rounding.step, rounding.low, rounding.high, rounding.unit);
}

template <class A>
void field(A& a, AttentionSpec& attend) {
  fields(a, attend.from_source, attend.n_heads, attend.n_kv_heads, attend.key_dim, attend.value_dim, attend.kv_head_of, attend.scale,
         attend.score_roundings, attend.weight_roundings, attend.soft_cap, attend.causal, attend.window, attend.slopes,
         attend.distance_bias, attend.first_distance, attend.sinks, attend.words, attend.node);
}

template <class A>
void field(A& a, Plan::PlanRegister& one) {
  fields(a, one.dtype, one.size);
}
template <class A>
void field(A& a, Plan::SourceValue& source) {
  fields(a, source.value, source.port, source.position_axis);
}

template <class A>
void field(A& a, std::map<std::string, int, std::less<>>& counts) {
  std::vector<std::string> names;
  std::vector<int> numbers;
  for (const auto& [name, number] : counts) {
    names.push_back(name);
    numbers.push_back(number);
  }
  fields(a, names, numbers);
  if constexpr (A::kReads) {
    for (size_t i = 0; i < std::min(names.size(), numbers.size()); ++i) counts[names[i]] = numbers[i];
  }
}

template <class A>
void field(A& a, Plan& plan) {
  file_field(a, plan.file);
  fields(a, plan.values, plan.ops, plan.constants, plan.tables, plan.tables_beyond, plan.switch_after, plan.tensors, plan.weights);
  bool has_nodes = plan.nodes != nullptr;
  a.flag(has_nodes, 0);
  if (has_nodes) graph_field(a, plan.nodes, true);
  fields(a, plan.attends, plan.registers, plan.token, plan.embedding, plan.source_inputs, plan.output, plan.one_token,
         plan.unsupported_tokens, plan.max_positions, plan.notes, plan.fused);
}

}  // namespace kvik::native
