#include "analysis/control_uses.h"

#include <algorithm>

#include "analysis/causality.h"
#include "analysis/operators.h"

namespace kvik::analysis {
namespace {

// How a value was computed from the input.
enum Distance : uint8_t { kExact, kComputed, kCounted, kCompared, kDistances };

constexpr size_t kMostAttentions = 8;  // enough to distinguish self-attention from cross-attention

class UseWalk {
 public:
  UseWalk(const Flow& flow, ControlUses& uses) : flow_(flow), uses_(uses), seen_(flow.n_values(), 0) {}

  void run(FlowValue from) {
    push(from, kExact);
    while (!stack_.empty()) {
      const auto [value, distance] = stack_.back();
      stack_.pop_back();
      for (const FlowNodeId reader : flow_.readers(value)) {
        at_ = reader;
        visit(flow_.node(reader), value, distance);
      }
    }
  }

 private:
  void push(FlowValue value, Distance distance) {
    if (value == kNone) return;
    uint8_t& seen = seen_[static_cast<size_t>(value)];
    const auto bit = static_cast<uint8_t>(1u << distance);
    if ((seen & bit) != 0) return;
    seen = static_cast<uint8_t>(seen | bit);
    stack_.emplace_back(value, distance);
  }
  void push_outputs(const FlowNode& node, Distance distance) {
    for (const FlowValue value : node.outputs) push(value, distance);
  }

  void visit(const FlowNode& node, FlowValue value, Distance distance) {
    if (node.is("Shape") || node.is("Size")) return;
    uses_.only_its_shape = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == value) visit_slot(node, i, distance);
    }
  }

  void visit_slot(const FlowNode& node, size_t slot, Distance distance) {
    if (const ControlSlot control = control_slot(node, slot); control != ControlSlot::kNothing) return note_control(control, distance);
    if (node.is("If")) {
      if (slot == 0) uses_.is_branch_condition = true;
      return;
    }
    if (node.is("Gather") || node.is("GatherBlockQuantized") || node.is("GatherElements") || node.is("GatherND")) {
      return slot == 0 ? push_outputs(node, distance) : note_lookup(node, distance);
    }
    if (node.is("ScatterND") || node.is("ScatterElements") || node.is("Scatter")) {
      if (slot == 1) uses_.picks_rows_of_state = true;
      return slot == 1 ? void() : push_outputs(node, std::max(distance, kComputed));
    }
    if (node.is("Slice")) return visit_slice(node, slot, distance);
    if (node.is("Cos") || node.is("Sin")) {
      if (distance <= kComputed) uses_.makes_angles = true;
      return;
    }
    if (node.is("Softmax")) {
      uses_.reaches_softmax = true;
      return note_attention();
    }
    if (node.is("Conv") || node.is("ConvInteger") || node.is("FusedConv")) return note_convolution(node, slot);
    if (node.is("Range")) {
      uses_.bounds_range = true;
      return push_outputs(node, std::max(distance, kComputed));
    }
    visit_arithmetic(node, slot, distance);
  }

  void visit_slice(const FlowNode& node, size_t slot, Distance distance) {
    if (slot == 0) return push_outputs(node, distance);
    if (slot > 2) return;
    const bool of_table = weight_dims(flow_, node.input(0)).has_value();
    uses_.bounds_past |= distance <= kComputed && (of_table || is_moved_input(node.input(0)));
    uses_.bounds_slice |= !of_table;
  }

  // A graph input, or a reshaped one.
  bool is_moved_input(FlowValue value) const {
    for (int depth = 0; depth < 16 && value != kNone; ++depth) {
      if (flow_.is_input(value)) return true;
      const FlowNode* made_by = flow_.producer(value);
      if (made_by == nullptr || !moves_elements(*made_by)) return false;
      value = made_by->input(0);
    }
    return false;
  }

  void visit_arithmetic(const FlowNode& node, size_t slot, Distance distance) {
    if (node.is("CumSum") || node.is("ReduceSum")) {
      if (slot != 0) return;
      if (distance <= kComputed) uses_.is_counted = true;
      return push_outputs(node, std::max(distance, kCounted));
    }
    if (node.is("Sub") || is_comparison(node)) note_range(node, slot, distance);
    if (is_comparison(node)) {
      uses_.is_compared = true;
      return push_outputs(node, kCompared);
    }
    if (node.is("Where")) {
      if (slot == 0) uses_.is_compared = true;
      return push_outputs(node, slot == 0 ? kCompared : distance);
    }
    if (node.is("Max") || node.is("Min") || node.is("Clip") || node.is("Concat")) return push_outputs(node, distance);
    if (is_elementwise_arithmetic(node) || node.is("ReduceMax") || node.is("Pow")) return push_outputs(node, std::max(distance, kComputed));
    if (moves_elements(node)) {
      if (slot == 0 || node.is(kMerge)) push_outputs(node, distance);
      return;
    }
    // Positions times frequencies: only a product with a constant can be an angle.
    if (is_matmul(node) && distance <= kComputed && other_is_constant(node, slot)) push_outputs(node, kComputed);
  }

  bool other_is_constant(const FlowNode& node, size_t slot) const {
    if (node.inputs.size() != 2) return false;
    FlowValue value = node.inputs[1 - slot];
    for (int depth = 0; depth < 16 && value != kNone; ++depth) {
      if (flow_.constant(value) != nullptr) return true;
      const FlowNode* made_by = flow_.producer(value);
      if (made_by == nullptr || !moves_elements(*made_by)) return false;
      value = made_by->input(0);
    }
    return false;
  }

  void note_control(ControlSlot control, Distance distance) {
    // An input from which a length is computed (a mask) is not a length.
    const bool exact = distance == kExact;
    switch (control) {
      case ControlSlot::kTokens: uses_.picks_tokens |= exact; break;
      case ControlSlot::kSegments: uses_.picks_segments |= exact; break;
      case ControlSlot::kPositions: uses_.makes_angles |= distance <= kComputed; break;
      case ControlSlot::kMask:
        uses_.is_attention_mask = true;
        note_attention();
        break;
      case ControlSlot::kTotalLength: uses_.is_total_length |= exact; break;
      case ControlSlot::kTotalLengthMinusOne: uses_.is_total_length_minus_one |= exact; break;
      case ControlSlot::kPastLength: uses_.is_past_length |= exact; break;
      case ControlSlot::kWriteIndices: uses_.is_write_index |= exact; break;
      case ControlSlot::kNothing: break;
    }
  }

  void note_range(const FlowNode& node, size_t slot, Distance distance) {
    if (node.inputs.size() != 2 || distance != kExact || node.is("Equal")) return;
    uses_.meets_range |= counts_positions(flow_, node.inputs[1 - slot]);
  }

  void note_attention() {
    if (uses_.attentions.size() < kMostAttentions) uses_.attentions.push_back(at_);
  }

  void note_lookup(const FlowNode& node, Distance distance) {
    if (distance > kComputed) return;
    if (const auto table = looked_up_table(flow_, node)) {
      uses_.lookups.push_back({*table, distance == kExact, node.input(0)});
    } else {
      uses_.gathers_activations = true;
    }
  }

  void note_convolution(const FlowNode& node, size_t slot) {
    if (slot != 0) return;
    const auto kernel = weight_dims(flow_, node.input(1));
    if (!kernel) return;
    (kernel->size() == 3 ? uses_.convolves_1d : uses_.convolves_2d) = true;
  }

  const Flow& flow_;
  ControlUses& uses_;
  std::vector<uint8_t> seen_;  // one bit per Distance
  std::vector<std::pair<FlowValue, Distance>> stack_;
  FlowNodeId at_ = kNone;  // the node being visited
};

}  // namespace

ControlUses control_uses(const Flow& flow, FlowValue input) {
  ControlUses uses;
  UseWalk(flow, uses).run(input);
  return uses;
}

}  // namespace kvik::analysis
