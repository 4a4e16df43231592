#include "backend/native/label/graph_labeler.h"

#include <algorithm>
#include <fmt/format.h>

#include "backend/native/label/rules.h"
#include "backend/native/label/token_free.h"
#include "backend/native/probe/constant_shapes.h"
#include "backend/native/specialize/expand.h"
#include "backend/native/specialize/input_meaning.h"
#include "backend/native/specialize/length_switch.h"
#include "backend/native/specialize/specialize.h"

namespace kvik::native {
namespace {

using onnx::kNoValue;
using onnx::Node;
using onnx::NodeId;
using onnx::ValueId;

bool is_random(const Node& node) {
  for (const std::string_view op : {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}) {
    if (node.op == op) return true;
  }
  return false;
}

bool is_shape(const Node& node) { return node.domain.empty() && (node.op == "Shape" || node.op == "Size"); }
bool is_if(const Node& node) { return node.domain.empty() && node.op == "If"; }

}  // namespace

GraphLabeler::GraphLabeler(CompileState& state, const Hints& known)
    : result{.emitter = Emitter(state.flat, state.labels), .numbers = ValueNumbers(state.labels)},
      hints(known),
      state_(state),
      sizes_(size_triple(state.labels)) {
  labels().keys_on_left = known.keys_on_left;
  grow();
}

void GraphLabeler::grow() {
  labels().of_value.resize(flat().graph.values.size());
  opened_.resize(flat().graph.nodes.size());
}

// Depth first with a stack of our own: a graph may be a chain of any length.
std::optional<Stop> GraphLabeler::reach(ValueId target) {
  std::vector<ValueId> stack = {target};
  while (!stack.empty()) {
    const ValueId value = stack.back();
    if (label(value).kind != Label::Kind::kUnset) {
      stack.pop_back();
      continue;
    }
    const NodeId producer = flat().graph.value(value).producer;
    if (producer == onnx::kNoNode || flat().graph.value(value).initializer >= 0) {
      if (Expected<> source = label_source(value); !source) return std::move(source).refusal();
      continue;
    }
    if (!opened_[static_cast<size_t>(producer)]) {
      opened_[static_cast<size_t>(producer)] = true;
      if (push_missing_inputs(producer, stack)) continue;
    }
    if (std::optional<Stop> stop = label_node(producer)) return stop;
    if (label(value).kind == Label::Kind::kUnset && flat().graph.value(value).producer == producer)
      return Refusal{node(producer).describe(), fmt::format("does not define its output '{}'", flat().graph.name_of(value))};
  }
  return std::nullopt;
}

bool GraphLabeler::push_missing_inputs(NodeId id, std::vector<ValueId>& stack) {
  const Node& reader = node(id);
  const size_t before = stack.size();
  const auto push = [&](ValueId value) {
    if (value != kNoValue && label(value).kind == Label::Kind::kUnset) stack.push_back(value);
  };
  if (is_if(reader)) {  // which branch, and so what it reads, is not known yet
    push(reader.inputs.at(0));
  } else {
    // The first input's ancestors come first: they are on top.
    for (auto value = reader.inputs.rbegin(); value != reader.inputs.rend(); ++value) push(*value);
    for (const ValueId value : reader.captures) push(value);
  }
  return stack.size() > before;
}

Expected<> GraphLabeler::label_source(ValueId value) {
  if (const onnx::TensorData* weight = flat().graph.initializer_of(value)) {
    Label& constant = label(value);
    constant.kind = Label::Kind::kConstant;
    constant.dtype = is_computed_as_f32(weight->dtype) ? DType::kF32 : weight->dtype;
    constant.dims = weight->dims;
    return {};
  }
  const FlatGraph::Input* input = flat().input_of(value);
  if (input == nullptr) return refuse(fmt::format("'{}' is computed by no node", flat().graph.name_of(value)));
  KVIK_TRY(label(value), input_label(labels(), *input, hints));
  return {};
}

std::optional<Stop> GraphLabeler::label_node(NodeId id) {
  for (ValueId& input : flat().graph.nodes[static_cast<size_t>(id)].inputs) {
    if (const auto same = same_.find(input); same != same_.end()) input = same->second;
  }
  if (is_if(node(id))) return take_branch(id);
  Expected<bool> expanded = expand_composite_op(state_, id);
  grow();
  if (!expanded) return std::move(expanded).refusal().about(node(id));
  if (*expanded) return std::nullopt;

  const Node here = node(id);
  if (is_random(here)) return Refusal{here.describe(), "draws random numbers"};
  bool rows = false, auxiliaries = false;
  const auto look = [&](ValueId value) {
    if (value == kNoValue) return;
    rows = rows || label(value).kind == Label::Kind::kRow;
    auxiliaries = auxiliaries || label(value).kind == Label::Kind::kAuxiliary;
  };
  for (const ValueId value : here.inputs) look(value);
  for (const ValueId value : here.captures) look(value);
  if (rows && !is_shape(here)) return label_row(id);
  if (rows && label(here.inputs.at(0)).is_empty) return Refusal{here.describe(), "reads the shape of a value without elements"};
  if (rows && cache_writes_.is_rolled(here.inputs[0])) return Refusal{here.describe(), "reads the shape of a cache that is being shifted"};
  if (share(id)) return std::nullopt;
  if (rows || auxiliaries) {
    label_auxiliary(here);
    return std::nullopt;
  }
  if (Expected<> constant = label_constant(here); !constant) return std::move(constant).refusal().about(here);
  return std::nullopt;
}

// If another node computes the same already, its values are read instead from now on.
bool GraphLabeler::share(NodeId id) {
  const std::vector<ValueId> first = result.numbers.first_outputs(id);
  if (first == node(id).outputs) return false;
  for (size_t i = 0; i < first.size(); ++i) {
    const ValueId mine = node(id).outputs[i];
    if (mine == kNoValue) continue;
    label(mine) = label(first[i]);
    same_[mine] = first[i];
  }
  return true;
}

// An If becomes its branch, which computes its outputs from then on.
std::optional<Stop> GraphLabeler::take_branch(NodeId id) {
  const Outcome<bool> branch = resolve_if(state_, id);
  if (!branch) return branch.stop();
  if (Expected<> inlined = inline_branch(flat(), id, *branch); !inlined) return std::move(inlined).refusal();
  grow();
  return std::nullopt;
}

Expected<> GraphLabeler::label_constant(const Node& made) {
  KVIK_TRY(const std::vector<ConstantShape> shapes, constant_shapes(labels(), constants(), made));
  for (size_t i = 0; i < made.outputs.size(); ++i) {
    if (made.outputs[i] == kNoValue) continue;
    Label& constant = label(made.outputs[i]);
    constant.kind = Label::Kind::kConstant;
    constant.dtype = shapes.at(i).dtype;
    constant.dims = shapes.at(i).dims;
  }
  return {};
}

void GraphLabeler::label_auxiliary(const Node& made) {
  for (const ValueId value : made.outputs) {
    if (value != kNoValue) label(value).kind = Label::Kind::kAuxiliary;
  }
}

std::optional<Stop> GraphLabeler::label_row(NodeId id) {
  Expected<> applied = apply_rule(id);
  grow();
  if (applied || make_token_free(*this, id)) return std::nullopt;
  // Perhaps only an operand does not depend on tokens.
  if (make_operands_token_free(*this, id)) return label_node(id);
  return std::move(applied).refusal().about(node(id));
}

Expected<> GraphLabeler::apply_rule(NodeId id) {
  NodeLabeler op(*this, id);
  if (op.mixes_last_row()) return op.refuse("combines the last row of a call with other rows");
  if (op.any_empty() && !op.is("Concat")) {
    KVIK_CHECK(op.set_empty_outputs());
  } else {
    KVIK_TRY(const bool is_write, cache_writes_.label(op));
    if (!is_write) KVIK_CHECK(label_by_rule(op));
  }
  return selections_.follow(labels(), probes(), constants(), op.node());
}

Expected<> GraphLabeler::label_by_rule(NodeLabeler& op) {
  const Rule rule = writes_into_past(op) ? write_into_past : rules().find(op.node().domain, op.node().op);
  if (rule == nullptr) return label_by_running(op);
  Expected<> labeled = rule(op);
  // With one token per run and no row axis, rows cannot be mixed.
  const bool may_run = op.one_token() && !op.has_rows();
  return labeled || !may_run ? labeled : label_by_running(op);
}

void GraphLabeler::note_once(std::string note) {
  if (std::find(result.notes.begin(), result.notes.end(), note) == result.notes.end()) result.notes.push_back(std::move(note));
}

}  // namespace kvik::native
