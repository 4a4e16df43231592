#include "analysis/state_walk.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "analysis/constants.h"

namespace kvik::analysis {
namespace {

constexpr int kMostArithmetic = 8;  // a decaying state has 2 or 3; without a limit the walk would follow the residual stream
constexpr size_t kMostVisitedValues = 2048;
constexpr size_t kMostReshapes = 8;

// A position of the walk: a value, what happened on the path, and the state's axis for each of its axes.
struct Visit {
  FlowValue value = kNone;
  int n_arithmetic = 0;
  bool grown = false, cut = false, only_new = false, written = false;
  int grown_axis = -1, written_axis = -1;
  const FlowNode* by = nullptr;
  bool knows_axes = true;
  std::vector<int> axes;                        // axes of the state; -1: a new axis
  std::vector<std::pair<int, int64_t>> picked;  // axis of the state and index

  int axis_of_state(int64_t axis) const {
    const auto rank = static_cast<int64_t>(axes.size());
    if (axis < 0) axis += rank;
    return knows_axes && axis >= 0 && axis < rank ? axes[static_cast<size_t>(axis)] : -1;
  }
};

std::optional<std::vector<int64_t>> axes_of(const Flow& flow, const FlowNode& node) {
  if (node.input(1) != kNone) return constant_ints(flow, node.input(1));
  if (!node.node->has("axes")) return {};
  return node.node->ints_or("axes", {});
}

void insert_axes(Visit& step, std::vector<int64_t> at) {
  const auto rank = static_cast<int64_t>(step.axes.size() + at.size());
  for (int64_t& axis : at) axis += axis < 0 ? rank : 0;
  std::sort(at.begin(), at.end());
  for (const int64_t axis : at) {
    if (axis < 0 || axis > static_cast<int64_t>(step.axes.size())) {
      step.knows_axes = false;
      return;
    }
    step.axes.insert(step.axes.begin() + axis, -1);
  }
}

void remove_axes(Visit& step, std::vector<int64_t> at) {
  const auto rank = static_cast<int64_t>(step.axes.size());
  for (int64_t& axis : at) axis += axis < 0 ? rank : 0;
  std::sort(at.rbegin(), at.rend());
  for (const int64_t axis : at) {
    if (axis < 0 || axis >= static_cast<int64_t>(step.axes.size())) {
      step.knows_axes = false;
      return;
    }
    step.axes.erase(step.axes.begin() + axis);
  }
}

void transpose(const FlowNode& node, Visit& step) {
  std::vector<int64_t> perm = node.node->ints_or("perm", {});
  if (perm.empty()) {
    std::reverse(step.axes.begin(), step.axes.end());
    return;
  }
  std::vector<int> moved;
  for (const int64_t axis : perm) {
    if (axis < 0 || axis >= static_cast<int64_t>(step.axes.size())) {
      step.knows_axes = false;
      return;
    }
    moved.push_back(step.axes[static_cast<size_t>(axis)]);
  }
  step.axes = std::move(moved);
}

// Selects one index along an axis, and removes the axis if the index is a scalar.
void gather(const Flow& flow, const FlowNode& node, Visit& step) {
  const int64_t axis = node.node->int_or("axis", 0);
  const auto index = constant_int(flow, node.input(1));
  if (!index) {
    step.knows_axes = false;
    return;
  }
  if (const int of_state = step.axis_of_state(axis); of_state >= 0) step.picked.emplace_back(of_state, *index);
  const onnx::TensorData* data = flow.constant(node.input(1));
  if (data != nullptr && !data->dims.empty()) return;
  remove_axes(step, {axis});
}

void slice(const Flow& flow, const FlowNode& node, Visit& step) {
  const auto starts =
      node.input(1) == kNone ? node.node->ints_or("starts", {}) : constant_ints(flow, node.input(1)).value_or(std::vector<int64_t>{});
  const auto axes =
      node.input(1) == kNone ? node.node->ints_or("axes", {}) : constant_ints(flow, node.input(3)).value_or(std::vector<int64_t>{});
  if (starts.size() == 1 && axes.size() == 1) {
    if (const int of_state = step.axis_of_state(axes[0]); of_state >= 0) step.picked.emplace_back(of_state, starts[0]);
  }
}

// Leading axes that are copied, by a zero or a computed length, are kept.
void reshape(const Flow& flow, const FlowNode& node, Visit& step) {
  const auto target = partial_ints(flow, node.input(1));
  std::vector<int> axes(target.size(), -1);
  size_t kept = 0;
  while (kept < target.size() && kept < step.axes.size() && (!target[kept] || *target[kept] == 0)) ++kept;
  if (kept == 0 || node.node->int_or("allowzero", 0) != 0) {
    step.knows_axes = false;
    return;
  }
  std::copy_n(step.axes.begin(), kept, axes.begin());
  step.axes = std::move(axes);
}

// Tracks axes through a movement operator.
void follow_axes(const Flow& flow, const FlowNode& node, Visit& step) {
  if (node.node == nullptr || !step.knows_axes) return;
  if (node.is("Transpose")) {
    transpose(node, step);
  } else if (node.is("Unsqueeze") || node.is("Squeeze")) {
    const auto axes = axes_of(flow, node);
    if (!axes) {
      step.knows_axes = false;
    } else if (node.is("Unsqueeze")) {
      insert_axes(step, *axes);
    } else {
      remove_axes(step, *axes);
    }
  } else if (node.is("Gather")) {
    gather(flow, node, step);
  } else if (node.is("Slice")) {
    slice(flow, node, step);
  } else if (node.is("Reshape")) {
    reshape(flow, node, step);
  } else if (node.is("Flatten") || node.is("Expand") || node.is("Tile") || node.is("GatherND")) {
    step.knows_axes = false;
  }
}

class StateWalk {
 public:
  StateWalk(const Flow& flow, const AttentionMap& attention, FlowValue input) : flow_(flow), attention_(attention), input_(input) {
    for (size_t i = 0; i < flow.outputs().size(); ++i) output_of_[flow.outputs()[i]].push_back(static_cast<int>(i));
  }

  StateTrace run(int rank) {
    Visit first{.value = input_};
    first.axes.resize(static_cast<size_t>(std::max(rank, 0)));
    std::iota(first.axes.begin(), first.axes.end(), 0);
    first.knows_axes = rank > 0;
    seen_.insert(input_);
    queue_.push_back(std::move(first));
    // Arithmetic goes to the back of the queue, so every value is reached first on the path with the least arithmetic.
    while (!queue_.empty() && seen_.size() < kMostVisitedValues) {
      const Visit step = std::move(queue_.front());
      queue_.pop_front();
      arrive(step);
      for (const FlowNodeId reader : flow_.readers(step.value)) visit(flow_.node(reader), step);
    }
    return std::move(trace_);
  }

 private:
  void arrive(const Visit& step) {
    const auto found = output_of_.find(step.value);
    if (found == output_of_.end()) return;
    for (const int output : found->second) {
      trace_.arrivals.push_back(
          {output, step.n_arithmetic, step.grown, step.grown_axis, step.cut, step.only_new, step.written, step.written_axis, step.by});
    }
  }

  void push(const FlowNode& node, Visit step, bool to_back = false) {
    for (const FlowValue value : node.outputs) push_value(value, step, to_back);
  }
  void push_value(FlowValue value, Visit step, bool to_back) {
    if (value == kNone || !seen_.insert(value).second) return;
    step.value = value;
    to_back ? queue_.push_back(std::move(step)) : queue_.push_front(std::move(step));
  }

  void visit(const FlowNode& node, const Visit& step) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == step.value) visit_slot(node, i, step);
    }
  }

  void visit_slot(const FlowNode& node, size_t slot, const Visit& step) {
    note_use(node, slot, step);
    if (const StatefulOperator* op = stateful_operator(node)) return through_operator(node, *op, slot, step);
    if (node.is("Concat")) return concat(node, step);
    if (node.is("TensorScatter") || node.is("ScatterND") || node.is("ScatterElements")) return scatter(node, slot, step);
    if (moves_elements(node)) {
      if (slot == 0 || node.is(kMerge)) move(node, step);
      return;
    }
    if (!is_elementwise_arithmetic(node) || step.n_arithmetic >= kMostArithmetic) return;
    if (node.is("Where") && slot == 0) return;
    Visit next = step;
    ++next.n_arithmetic;
    if (node.is("Where")) next.written = true, next.by = &node;
    push(node, std::move(next), true);
  }

  void note_use(const FlowNode& node, size_t slot, const Visit& step) {
    AttentionUse use;
    attention_.note(node, slot, use);
    if (!use.any()) return;
    trace_.use.as_key |= use.as_key;
    trace_.use.as_value |= use.as_value;
    trace_.use.as_recurrent |= use.as_recurrent;
    trace_.use.both_in_one |= use.both_in_one;
    if (use.node != nullptr) trace_.use.node = use.node;
    if ((node.is("MatMul") || node.is("QLinearMatMul")) && trace_.attended_axis < 0)
      trace_.attended_axis = step.axis_of_state((slot != 0) == use.as_key ? -1 : -2);
    for (const auto& [axis, index] : step.picked) trace_.parts.push_back({axis, index, use.as_key, use.as_value});
  }

  void move(const FlowNode& node, const Visit& step) {
    Visit next = step;
    follow_axes(flow_, node, next);
    if (step.grown && (node.is("Slice") || node.is("Gather") || node.is("Split"))) next.cut = true;
    if (step.grown && node.is("Slice") && keeps_only_new(node)) next.only_new = true;
    if (node.is("Slice") && trace_.cut_axis < 0) trace_.cut_axis = computed_cut(node, step);
    if (node.is("Reshape") && trace_.reshapes.size() < kMostReshapes) {
      if (auto target = partial_ints(flow_, node.input(1)); !target.empty()) trace_.reshapes.push_back(std::move(target));
    }
    if (node.is("Split") && next.knows_axes) {
      const int axis = next.axis_of_state(node.node->int_or("axis", 0));
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        Visit part = next;
        if (axis >= 0) part.picked.emplace_back(axis, static_cast<int64_t>(i));
        push_value(node.outputs[i], std::move(part), false);
      }
      return;
    }
    push(node, std::move(next));
  }

  // The axis of a slice with a computed bound; -1: the bounds are constant.
  int computed_cut(const FlowNode& node, const Visit& step) const {
    if (node.input(1) == kNone || node.input(3) == kNone) return -1;
    const auto axis = constant_int(flow_, node.input(3));
    const bool known = constant_ints(flow_, node.input(1)) && constant_ints(flow_, node.input(2));
    return axis && !known ? step.axis_of_state(*axis) : -1;
  }

  void concat(const FlowNode& node, const Visit& step) {
    Visit next = step;
    std::vector<FlowValue> fresh;
    for (const FlowValue part : node.inputs) {
      if (part != kNone && part != step.value && !comes_from_state(part)) fresh.push_back(part);
    }
    if (!fresh.empty() && node.node != nullptr) {
      next.grown = trace_.grown = true;
      next.by = &node;
      next.grown_axis = step.axis_of_state(node.node->int_or("axis", 0));
      if (trace_.grown_axis < 0) trace_.grown_axis = next.grown_axis;
      trace_.fresh.insert(trace_.fresh.end(), fresh.begin(), fresh.end());
    }
    push(node, std::move(next));
  }

  void scatter(const FlowNode& node, size_t slot, const Visit& step) {
    if (slot != 0) return;
    Visit next = step;
    next.written = trace_.written = true;
    next.by = &node;
    if (node.is("TensorScatter")) {
      next.written_axis = step.axis_of_state(node.node->int_or("axis", -2));
      trace_.fresh.push_back(node.input(1));
    } else {
      next.written_axis = node.is("ScatterND") ? scattered_axis(node, step) : step.axis_of_state(node.node->int_or("axis", 0));
      trace_.fresh.push_back(node.input(2));
    }
    if (trace_.written_axis < 0) trace_.written_axis = next.written_axis;
    push(node, std::move(next));
  }

  // ScatterND writes slices along the first axis if its index tuples have one element.
  int scattered_axis(const FlowNode& node, const Visit& step) const {
    const auto depth = last_dim(flow_, node.input(1));
    if (depth) return *depth == 1 ? step.axis_of_state(0) : -1;
    const FlowNode* made_by = node.input(1) == kNone ? nullptr : flow_.producer(node.input(1));
    return made_by != nullptr && made_by->is("Unsqueeze") ? step.axis_of_state(0) : -1;
  }

  void through_operator(const FlowNode& node, const StatefulOperator& op, size_t slot, const Visit& step) {
    for (const StateSlot& state : op.states) {
      if (state.input != static_cast<int>(slot)) continue;
      Visit next = step;
      next.by = &node;
      if (state.holds != StateSlot::Holds::kRecurrent) {
        next.grown = trace_.grown = true;
        next.grown_axis = step.axis_of_state(op.position_axis);
        if (trace_.grown_axis < 0) trace_.grown_axis = next.grown_axis;
      }
      if (state.fresh >= 0 && node.input(static_cast<size_t>(state.fresh)) != kNone)
        trace_.fresh.push_back(node.input(static_cast<size_t>(state.fresh)));
      push_value(node.output(static_cast<size_t>(state.output)), std::move(next), false);
    }
  }

  // Whether a slice starts at the end of the past, or takes as many positions from the end as another value has.
  bool keeps_only_new(const FlowNode& slice) const {
    FlowValue at = slice.input(1);
    bool negated = false;
    for (int depth = 0; depth < 16 && at != kNone; ++depth) {
      const FlowNode* node = flow_.producer(at);
      if (node == nullptr) return false;
      if (node->is("Shape")) return negated ? !comes_from_state(node->input(0)) : root_of(flow_, node->input(0)) == input_;
      if (node->is("Neg")) negated = !negated;
      if (!node->is("Neg") && !moves_elements(*node) && !(node->is("Concat") && node->inputs.size() == 1)) return false;
      at = node->input(0);
    }
    return false;
  }

  // Whether a value is computed from the same state: halves that are joined again, layers that are stacked.
  bool comes_from_state(FlowValue value) const {
    std::unordered_set<FlowValue> visited;
    std::vector<FlowValue> stack = {value};
    while (!stack.empty() && visited.size() < 64) {
      const FlowValue at = stack.back();
      stack.pop_back();
      if (at == kNone || !visited.insert(at).second) continue;
      if (at == input_) return true;
      const FlowNode* node = flow_.producer(at);
      if (node == nullptr) continue;
      if (node->is("Concat") || node->is(kMerge) || is_elementwise_arithmetic(*node)) {
        stack.insert(stack.end(), node->inputs.begin(), node->inputs.end());
      } else if (moves_elements(*node)) {
        stack.push_back(node->input(0));
      }
    }
    return false;
  }

  const Flow& flow_;
  const AttentionMap& attention_;
  const FlowValue input_;
  StateTrace trace_;
  std::unordered_set<FlowValue> seen_;
  std::deque<Visit> queue_;
  std::unordered_map<FlowValue, std::vector<int>> output_of_;
};

}  // namespace

StateTrace trace_state(const Flow& flow, const AttentionMap& attention, FlowValue input, int rank) {
  return StateWalk(flow, attention, input).run(rank);
}

FlowValue root_of(const Flow& flow, FlowValue value) {
  for (int depth = 0; depth < 32; ++depth) {
    const FlowNode* node = flow.producer(value);
    if (node == nullptr || node->node == nullptr || node->input(0) == kNone) return value;
    const bool copies = node->is("Identity") || node->is("Cast") || node->is("Transpose") || node->is("Reshape") || node->is("Unsqueeze") ||
                        node->is("Squeeze") || node->is("Flatten") || node->is("CastLike");
    if (!copies) return value;
    value = node->input(0);
  }
  return value;
}

}  // namespace kvik::analysis
