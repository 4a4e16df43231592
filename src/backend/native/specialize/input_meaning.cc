#include "backend/native/specialize/input_meaning.h"

#include <fmt/format.h>

#include "backend/graph/feeds.h"
#include "backend/native/probe/evaluation.h"

namespace kvik::native {
namespace {

using analysis::Port;
using analysis::Role;
using analysis::State;

constexpr int64_t kLargestAxis = int64_t{1} << 31;

Refusal refuse_input(const Port& port, std::string_view why) {
  return refuse(fmt::format("input '{}' ({}) {}", port.name, analysis::role_name(port.role), why));
}

Expected<Axis> declared(const Port& port, size_t axis, int64_t fallback = 0) {
  const int64_t size = axis < port.dims.size() && port.dims[axis].value > 0 ? port.dims[axis].value : fallback;
  if (size > kLargestAxis) return refuse_input(port, fmt::format("declares an axis of {}", size));
  if (size <= 0) return Axis{factor(Symbol::kUnknown)};
  return canonical({factor(size)});
}

Expected<Axes> token_axes(const Port& port) {
  const size_t rank = port.has_shape ? port.dims.size() : 2;
  if (rank == 1) return Axes{{factor(Symbol::kNew)}};
  if (rank != 2) return refuse_input(port, fmt::format("has {} axes; [batch, sequence] was expected", rank));
  return Axes{{factor(Symbol::kBatch)}, {factor(Symbol::kNew)}};
}

// The width of the first matrix that an input meets, if the file does not declare its own.
int64_t width_by_use(const FlatGraph& flat, onnx::ValueId input) {
  for (const onnx::Node& node : flat.graph.nodes) {
    if (node.op != "MatMul" || node.inputs.size() < 2 || node.inputs[0] != input || node.inputs[1] == onnx::kNoValue) continue;
    const onnx::TensorData* weight = flat.graph.initializer_of(node.inputs[1]);
    if (weight != nullptr && weight->dims.size() == 2) return weight->dims[0];
  }
  return 0;
}

Expected<Axes> feature_axes(const FlatGraph& flat, const FlatGraph::Input& input, Symbol sequence) {
  const Port& port = *input.port;
  const int64_t width = width_by_use(flat, input.value);
  const bool batched = !port.has_shape || port.dims.size() == 3;
  if (!batched && port.dims.size() != 2)
    return refuse_input(port, fmt::format("has {} axes; [batch, sequence, features] was expected", port.dims.size()));
  KVIK_TRY(const Axis features, declared(port, batched ? 2 : 1, width));
  return batched ? Axes{{factor(Symbol::kBatch)}, {factor(sequence)}, features} : Axes{{factor(sequence)}, features};
}

Expected<Axes> state_axes(const Port& port, const State& state, bool is_cut) {
  if (!port.has_shape) return refuse_input(port, "declares no shape");
  Axes axes;
  for (size_t i = 0; i < port.dims.size(); ++i) {
    const int axis = static_cast<int>(i);
    const bool is_batch = axis == state.batch_axis, is_heads = axis == state.head_axis;
    if (axis == state.position_axis && is_cut) {
      KVIK_TRY(Axis capacity, declared(port, i, state.capacity));
      axes.push_back(std::move(capacity));
    } else if (axis == state.position_axis) {
      axes.push_back({factor(state.cross ? Symbol::kSource : Symbol::kPast)});
    } else if (is_batch && is_heads) {
      axes.push_back(canonical({factor(Symbol::kBatch), state.n_heads > 0 ? factor(state.n_heads) : factor(Symbol::kUnknown)}));
    } else if (is_batch) {
      axes.push_back({factor(Symbol::kBatch)});
    } else {
      const bool whole_features = axis == state.feature_axis && state.holds != State::Holds::kKeyValue;
      KVIK_TRY(Axis axis_declared, declared(port, i, is_heads ? state.n_heads : whole_features ? state.head_dim : 0));
      axes.push_back(std::move(axis_declared));
    }
  }
  return axes;
}

// A single sequence has no batch axis; a single row, for one token at a time, has no axis of new tokens either.
Axes without_rows(Axes axes, bool one_token) {
  for (Axis& axis : axes) {
    std::erase_if(axis, [&](const Factor& one) { return one == factor(Symbol::kBatch) || (one_token && one == factor(Symbol::kNew)); });
    axis = canonical(std::move(axis));
  }
  return axes;
}

// `on`: what its rows are computed from.
Label row(const Port& port, Axes axes, bool Label::*on) {
  Label label{.kind = Label::Kind::kRow, .dtype = is_computed_as_f32(port.dtype) ? DType::kF32 : port.dtype, .axes = std::move(axes)};
  label.*on = true;
  return label;
}

Expected<Label> row(const Port& port, Expected<Axes> axes, bool Label::*on) {
  KVIK_TRY(Axes known, std::move(axes));
  return row(port, std::move(known), on);
}

Expected<Label> state_label(const FlatGraph& flat, const FlatGraph::Input& input) {
  const Port& port = *input.port;
  if (input.state == nullptr) return refuse_input(port, "is not a state that a step returns");
  if (!flat.has_past && !input.state->cross) return refuse_input(port, "is read by the graph of the first step, which has no past");
  const bool is_cut = flat.cut_buffer && input.state->growth == analysis::Growth::kFixed && !input.state->cross;
  KVIK_TRY(Axes axes, state_axes(port, *input.state, is_cut));
  return row(port, std::move(axes), input.state->cross ? &Label::on_source : &Label::on_past);
}

Expected<Label> label_by_role(const FlatGraph& flat, const FlatGraph::Input& input) {
  const Port& port = *input.port;
  switch (port.role) {
    case Role::kTokenIds: return row(port, token_axes(port), &Label::on_tokens);
    case Role::kInputsEmbeds: return row(port, feature_axes(flat, input, Symbol::kNew), &Label::on_tokens);
    case Role::kEncoderHiddenStates: return row(port, feature_axes(flat, input, Symbol::kSource), &Label::on_source);
    case Role::kPastKey:
    case Role::kPastValue:
    case Role::kPastKeyValue:
    case Role::kCrossKey:
    case Role::kCrossValue:
    case Role::kRecurrentState: return state_label(flat, input);
    default: break;
  }
  if (!backend::is_shape_role(port.role) && port.role != Role::kEncoderAttentionMask)
    return refuse_input(port, "cannot be derived from rows");
  return Label{.kind = Label::Kind::kAuxiliary};
}

}  // namespace

Expected<Label> input_label(const Labels& labels, const FlatGraph::Input& input, const Hints& hints) {
  if (input.port == nullptr) return Label{.kind = Label::Kind::kAuxiliary};
  KVIK_TRY(Label label, label_by_role(*labels.flat, input));
  if (label.kind != Label::Kind::kRow) return label;
  if (const auto known = hints.past_axes.find(input.value); known != hints.past_axes.end()) label.axes = known->second;
  if (labels.one_token || labels.one_sequence) label.axes = without_rows(std::move(label.axes), labels.one_token);
  return label;
}

}  // namespace kvik::native
