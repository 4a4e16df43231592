#include "backend/native/specialize/input_meaning.h"

#include <fmt/format.h>

#include "backend/graph/feeds.h"
#include "backend/native/graph/refuse.h"
#include "backend/native/probe/evaluation.h"

namespace kvik::native {
namespace {

using analysis::Port;
using analysis::Role;
using analysis::State;

constexpr int64_t kLargestAxis = int64_t{1} << 31;

[[noreturn]] void refuse_input(const Port& port, std::string_view why) {
  native::refuse(fmt::format("input '{}' ({}) {}", port.name, analysis::role_name(port.role), why));
}

Axis declared(const Port& port, size_t axis, int64_t told = 0) {
  const int64_t size = axis < port.dims.size() && port.dims[axis].value > 0 ? port.dims[axis].value : told;
  if (size > kLargestAxis) refuse_input(port, fmt::format("declares an axis of {}", size));
  if (size <= 0) return {factor(Symbol::kUnknown)};
  return canonical({factor(size)});
}

Axes token_axes(const Port& port) {
  const size_t rank = port.has_shape ? port.dims.size() : 2;
  if (rank == 1) return {{factor(Symbol::kNew)}};
  if (rank != 2) refuse_input(port, fmt::format("has {} axes; [batch, sequence] was expected", rank));
  return {{factor(Symbol::kBatch)}, {factor(Symbol::kNew)}};
}

// The width of the first matrix that an input meets, where the file does not declare its own.
int64_t width_by_use(const FlatGraph& flat, onnx::ValueId input) {
  for (const onnx::Node& node : flat.graph.nodes) {
    if (node.op != "MatMul" || node.inputs.size() < 2 || node.inputs[0] != input || node.inputs[1] == onnx::kNoValue) continue;
    const onnx::TensorData* weight = flat.graph.initializer_of(node.inputs[1]);
    if (weight != nullptr && weight->dims.size() == 2) return weight->dims[0];
  }
  return 0;
}

Axes feature_axes(const FlatGraph& flat, const FlatGraph::Input& input, Symbol sequence) {
  const Port& port = *input.port;
  const int64_t width = width_by_use(flat, input.value);
  if (!port.has_shape || port.dims.size() == 3) return {{factor(Symbol::kBatch)}, {factor(sequence)}, declared(port, 2, width)};
  if (port.dims.size() == 2) return {{factor(sequence)}, declared(port, 1, width)};
  refuse_input(port, fmt::format("has {} axes; [batch, sequence, features] was expected", port.dims.size()));
}

Axes state_axes(const Port& port, const State& state) {
  if (!port.has_shape) refuse_input(port, "declares no shape");
  Axes axes;
  for (size_t i = 0; i < port.dims.size(); ++i) {
    const int axis = static_cast<int>(i);
    const bool is_batch = axis == state.batch_axis, is_heads = axis == state.head_axis;
    if (axis == state.position_axis) {
      axes.push_back({factor(state.cross ? Symbol::kSource : Symbol::kPast)});
    } else if (is_batch && is_heads) {
      axes.push_back(canonical({factor(Symbol::kBatch), state.n_heads > 0 ? factor(state.n_heads) : factor(Symbol::kUnknown)}));
    } else if (is_batch) {
      axes.push_back({factor(Symbol::kBatch)});
    } else {
      const bool whole_features = axis == state.feature_axis && state.holds != State::Holds::kKeyValue;
      axes.push_back(declared(port, i, is_heads ? state.n_heads : whole_features ? state.head_dim : 0));
    }
  }
  return axes;
}

// A sequence by itself has no batch; a row by itself, which is right token by token, nothing new beside it either.
Axes without_rows(Axes axes, bool one_token) {
  for (Axis& axis : axes) {
    std::erase_if(axis, [&](const Factor& one) { return one == factor(Symbol::kBatch) || (one_token && one == factor(Symbol::kNew)); });
    axis = canonical(std::move(axis));
  }
  return axes;
}

Label row(const Port& port, Axes axes) {
  Label label{.kind = Label::Kind::kRow, .dtype = is_computed_as_f32(port.dtype) ? DType::kF32 : port.dtype, .axes = std::move(axes)};
  label.on_past = true;
  return label;
}

Label state_label(const FlatGraph& flat, const FlatGraph::Input& input) {
  const Port& port = *input.port;
  if (input.state == nullptr) refuse_input(port, "is not a state that a step returns");
  if (!flat.has_past && !input.state->cross) refuse_input(port, "is read by the graph of the first step, which has no past");
  Label label = row(port, state_axes(port, *input.state));
  if (input.state->cross) {
    label.on_past = false;
    label.on_source = true;
  }
  return label;
}

Label label_by_role(const FlatGraph& flat, const FlatGraph::Input& input) {
  const Port& port = *input.port;
  Label label;
  switch (port.role) {
    case Role::kTokenIds:
      label = row(port, token_axes(port));
      label.on_past = false;
      label.on_tokens = true;
      return label;
    case Role::kInputsEmbeds:
      label = row(port, feature_axes(flat, input, Symbol::kNew));
      label.on_past = false;
      label.on_tokens = true;
      return label;
    case Role::kEncoderHiddenStates:
      label = row(port, feature_axes(flat, input, Symbol::kSource));
      label.on_past = false;
      label.on_source = true;
      return label;
    case Role::kPastKey:
    case Role::kPastValue:
    case Role::kPastKeyValue:
    case Role::kCrossKey:
    case Role::kCrossValue:
    case Role::kRecurrentState: return state_label(flat, input);
    default: break;
  }
  if (!backend::is_shape_role(port.role) && port.role != Role::kEncoderAttentionMask) refuse_input(port, "cannot be given row by row");
  label.kind = Label::Kind::kAuxiliary;
  return label;
}

}  // namespace

Label input_label(const Labels& labels, const FlatGraph::Input& input, const Hints& hints) {
  if (input.port == nullptr) return {.kind = Label::Kind::kAuxiliary};
  Label label = label_by_role(*labels.flat, input);
  if (label.kind != Label::Kind::kRow) return label;
  if (const auto known = hints.past_axes.find(input.value); known != hints.past_axes.end()) label.axes = known->second;
  if (labels.one_token || labels.one_sequence) label.axes = without_rows(std::move(label.axes), labels.one_token);
  return label;
}

}  // namespace kvik::native
