#include "backend/native/label/graph_labeler.h"

#include <algorithm>
#include <fmt/format.h>

#include "backend/native/label/rules.h"
#include "backend/native/label/token_free.h"
#include "backend/native/probe/constant_row.h"
#include "backend/native/probe/constant_shapes.h"
#include "backend/native/specialize/expand.h"
#include "backend/native/specialize/input_meaning.h"
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

GraphLabeler::GraphLabeler(std::shared_ptr<FlatGraph> flat, Labels& labels, const AttentionContext& attention, Emitter& emitter)
    : flat_(std::move(flat)), labels_(&labels), attention_(attention), emitter_(&emitter), numbers_(labels) {
  for (const Probe* probe : probes().triple()) sizes_.push_back(probe->sizes());
  grow();
}

void GraphLabeler::grow() {
  labels_->of_value.resize(flat_->graph.values.size());
  opened_.resize(flat_->graph.nodes.size());
}

// Depth first with a stack of our own: a graph may be a chain of any length.
void GraphLabeler::reach(ValueId target) {
  std::vector<ValueId> stack = {target};
  while (!stack.empty()) {
    const ValueId value = stack.back();
    if ((*labels_)[value].kind != Label::Kind::kUnset) {
      stack.pop_back();
      continue;
    }
    const NodeId producer = flat_->graph.value(value).producer;
    if (producer == onnx::kNoNode || flat_->graph.value(value).initializer >= 0) {
      label_source(value);
      continue;
    }
    if (!opened_[static_cast<size_t>(producer)]) {
      opened_[static_cast<size_t>(producer)] = true;
      if (push_missing_inputs(producer, stack)) continue;
    }
    label_node(producer);
    if ((*labels_)[value].kind == Label::Kind::kUnset && flat_->graph.value(value).producer == producer)
      throw Refusal(node(producer), fmt::format("does not say what its output '{}' is", flat_->graph.name_of(value)));
  }
}

bool GraphLabeler::push_missing_inputs(NodeId id, std::vector<ValueId>& stack) {
  const Node& reader = node(id);
  const size_t before = stack.size();
  const auto push = [&](ValueId value) {
    if (value != kNoValue && (*labels_)[value].kind == Label::Kind::kUnset) stack.push_back(value);
  };
  if (is_if(reader)) {  // which branch, and so what it reads, is not known yet
    push(reader.inputs.at(0));
  } else {
    // The first input's ancestors come first: they stand on top.
    for (auto value = reader.inputs.rbegin(); value != reader.inputs.rend(); ++value) push(*value);
    for (const ValueId value : reader.captures) push(value);
  }
  return stack.size() > before;
}

void GraphLabeler::label_source(ValueId value) {
  Label& label = (*labels_)[value];
  if (const onnx::TensorData* weight = flat_->graph.initializer_of(value)) {
    label.kind = Label::Kind::kConstant;
    label.dtype = is_computed_as_f32(weight->dtype) ? DType::kF32 : weight->dtype;
    label.dims = weight->dims;
    return;
  }
  const FlatGraph::Input* input = flat_->input_of(value);
  if (input == nullptr) throw Refusal(fmt::format("'{}' is computed by no node", flat_->graph.name_of(value)));
  label = input_label(*labels_, *input, past_axes);
}

void GraphLabeler::label_node(NodeId id) {
  for (ValueId& input : flat_->graph.nodes[static_cast<size_t>(id)].inputs) {
    if (const auto same = same_.find(input); same != same_.end()) input = same->second;
  }
  if (rewrite(id)) return;
  const Node& here = node(id);
  if (is_random(here)) throw Refusal(here, "draws random numbers");
  bool rows = false, auxiliaries = false;
  const auto look = [&](ValueId value) {
    if (value == kNoValue) return;
    rows = rows || (*labels_)[value].kind == Label::Kind::kRow;
    auxiliaries = auxiliaries || (*labels_)[value].kind == Label::Kind::kAuxiliary;
  };
  for (const ValueId value : here.inputs) look(value);
  for (const ValueId value : here.captures) look(value);
  if (rows && !is_shape(here)) return label_row(id);
  if (rows && (*labels_)[here.inputs.at(0)].is_empty) throw Refusal(here, "asks for the shape of what has no elements");
  if (share(id)) return;
  if (rows || auxiliaries) return label_auxiliary(here);
  label_constant(here);
}

// Where another node computes the same already, its values stand for this node's from now on.
bool GraphLabeler::share(NodeId id) {
  const NodeId first = numbers_.same_as(id);
  if (first == id) return false;
  for (size_t i = 0; i < node(id).outputs.size(); ++i) {
    const ValueId mine = node(id).outputs[i], other = node(first).outputs[i];
    if (mine == kNoValue) continue;
    (*labels_)[mine] = (*labels_)[other];
    same_[mine] = other;
  }
  return true;
}

// An If becomes its branch, an operator that is shorthand the nodes it stands for. Their outputs are then computed by other nodes.
bool GraphLabeler::rewrite(NodeId id) {
  if (!is_if(node(id))) {
    if (!expand_composite_op(*this, id)) return false;
    grow();
    return true;
  }
  const ValueId condition = node(id).inputs.at(0);
  if ((*labels_)[condition].kind == Label::Kind::kRow) throw Refusal(node(id), "the condition depends on the contents of rows");
  std::vector<bool> chosen;
  for (const Tensor& tensor : at_sizes(condition)) {
    if (tensor.size() != 1) throw Refusal(node(id), "the condition is not a single value");
    chosen.push_back(tensor.data<bool>()[0]);
  }
  for (const bool one : chosen) {
    if (one != chosen.front()) throw Refusal(node(id), "the condition depends on the sizes");
  }
  inline_branch(*flat_, id, branch_for_context(id, condition, chosen.front()));
  grow();
  return true;
}

// Some models change their ways beyond a length.
bool GraphLabeler::branch_for_context(NodeId id, ValueId condition, bool at_first) {
  const auto changes_at = [&](Sizes sizes) { return probes().at(sizes).get(condition).data<bool>()[0] != at_first; };
  int64_t same = 0;
  bool changed = false;
  for (Sizes sizes : long_sizes(attention_)) {
    // Not one token alone: what is only spared there is no other way.
    if (flat_->has_past && !labels_->one_token) sizes.fresh = 2, --sizes.past;
    try {
      if (!changes_at(sizes)) {
        if (changed) throw Refusal(node(id), "the condition changes with the number of tokens more than once");
        same = sizes.total();
        continue;
      }
      for (int64_t other = changed ? same + 1 : sizes.total(); other - same > 1;) {
        const int64_t middle = same + (other - same) / 2;
        const bool has_past = flat_->has_past && middle > 2;
        const int64_t fresh = has_past ? sizes.fresh : middle;
        (changes_at({.fresh = fresh, .past = middle - fresh}) ? other : same) = middle;
      }
      changed = true;
    } catch (const Refusal&) { throw; } catch (const Error&) {
      break;  // the graph has no such length
    }
  }
  if (!changed) return at_first;
  if (same < 2) throw Refusal(node(id), "the condition depends on the number of tokens");
  if (attention_.beyond == same) return !at_first;
  throw LengthSwitch(
      fmt::format("{}: the condition changes after {} tokens; with --context {} it never does", node(id).describe(), same, same), same);
}

void GraphLabeler::label_constant(const Node& made) {
  const std::vector<ConstantShape> shapes = constant_shapes(*labels_, constants(), made);
  for (size_t i = 0; i < made.outputs.size(); ++i) {
    if (made.outputs[i] == kNoValue) continue;
    Label& label = (*labels_)[made.outputs[i]];
    label.kind = Label::Kind::kConstant;
    label.dtype = shapes.at(i).dtype;
    label.dims = shapes.at(i).dims;
  }
}

void GraphLabeler::label_auxiliary(const Node& made) {
  for (const ValueId value : made.outputs) {
    if (value != kNoValue) (*labels_)[value].kind = Label::Kind::kAuxiliary;
  }
}

void GraphLabeler::label_row(NodeId id) {
  try {
    apply_rule(id);
  } catch (const Error& error) {
    grow();
    if (make_token_free(*this, id)) return;
    // Perhaps only an operand does not depend on tokens.
    if (!make_operands_token_free(*this, id)) {
      if (dynamic_cast<const Refusal*>(&error) != nullptr) throw;
      throw Refusal(node(id), error.what());
    }
    label_node(id);
  }
  grow();
}

void GraphLabeler::apply_rule(NodeId id) {
  NodeLabeler op(*this, id);
  const Rule rule = writes_into_past(op) ? write_into_past : rules().find(op.node().domain, op.node().op);
  if (op.any_empty() && !op.is("Concat")) {
    op.set_empty_outputs();
  } else if (rule == nullptr) {
    label_by_running(op);
  } else {
    try {
      rule(op);
    } catch (const Refusal&) {
      // Token by token nothing can be mixed where there is no axis of rows.
      if (!op.one_token() || op.has_rows()) throw;
      label_by_running(op);
    }
  }
  selections_.follow(*labels_, probes(), constants(), op.node());
}

void GraphLabeler::note_once(std::string note) {
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(std::move(note));
}

const std::vector<Tensor>& GraphLabeler::at_sizes(ValueId value) {
  const auto [found, is_new] = at_sizes_.try_emplace(value);
  if (!is_new) return found->second;
  std::vector<Tensor> tensors;
  try {
    for (Probe* probe : probes().triple()) {
      tensors.push_back((*labels_)[value].kind == Label::Kind::kConstant ? constants().get(value) : probe->get(value));
    }
  } catch (...) {
    at_sizes_.erase(value);
    throw;
  }
  return at_sizes_[value] = std::move(tensors);
}

}  // namespace kvik::native
