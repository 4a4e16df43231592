#include "analysis/state_axes.h"

#include <algorithm>
#include <map>
#include <set>

#include "analysis/constants.h"

namespace kvik::analysis {
namespace {

using Sizes = std::vector<int64_t>;  // -1: unknown

constexpr int64_t kMostWindow = int64_t{1} << 24;  // positions

bool mentions(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Sizes of a value's axes, from declarations and Reshape targets, also behind a Transpose.
Sizes known_sizes(const Flow& flow, FlowValue value, int depth = 0) {
  if (value == kNone || depth > 8) return {};
  if (const auto& type = flow.type(value); type && type->dims) {
    Sizes sizes;
    for (const onnx::Dim& dim : *type->dims) sizes.push_back(dim.value);
    if (std::any_of(sizes.begin(), sizes.end(), [](int64_t s) { return s >= 0; })) return sizes;
  }
  const FlowNode* node = flow.producer(value);
  if (node == nullptr || node->node == nullptr) return {};
  if (node->is("Reshape")) {
    Sizes sizes;
    for (const auto& size : partial_ints(flow, node->input(1))) sizes.push_back(size && *size > 0 ? *size : -1);
    return sizes;
  }
  if (node->is("Transpose")) {
    const Sizes before = known_sizes(flow, node->input(0), depth + 1);
    Sizes after;
    for (const int64_t axis : node->node->ints_or("perm", {})) {
      if (axis < 0 || axis >= static_cast<int64_t>(before.size())) return {};
      after.push_back(before[static_cast<size_t>(axis)]);
    }
    return after;
  }
  if (node->is("Add") || node->is("Cast") || node->is("Identity") || node->is("RotaryEmbedding"))
    return known_sizes(flow, node->input(0), depth + 1);
  return {};
}

class Axes {
 public:
  Axes(const GraphFacts& facts, const File& file, State& state)
      : facts_(facts),
        file_(file),
        state_(state),
        port_(state.input >= 0 ? file.inputs[static_cast<size_t>(state.input)] : file.outputs[static_cast<size_t>(state.output)]),
        trace_(state.input >= 0 && facts.traces[static_cast<size_t>(state.input)] ? &*facts.traces[static_cast<size_t>(state.input)]
                                                                                  : nullptr) {
    for (const onnx::Dim& dim : port_.dims) sizes_.push_back(dim.value);
    infer_sizes();
  }

  void run() {
    const int rank = static_cast<int>(sizes_.size());
    if (rank == 0) return;
    if (state_.growth == Growth::kRecurrent) {
      state_.batch_axis = recurrent_batch_axis();
      state_.n_heads = 0;
      return;
    }
    state_.position_axis = position_axis();
    state_.batch_axis = batch_axis();
    assign_other_axes();
    if (state_.growth != Growth::kFixed || state_.position_axis < 0) return;
    state_.capacity = std::max<int64_t>(sizes_[static_cast<size_t>(state_.position_axis)], 0);
    if (state_.window && state_.capacity == 0 && trace_->use.node != nullptr)
      state_.capacity = std::clamp<int64_t>(trace_->use.node->node->int_or("local_window_size", 0), 0, kMostWindow);
  }

 private:
  // Takes sizes that the state declares as symbols from the values that are appended to it.
  void infer_sizes() {
    if (trace_ == nullptr || !trace_->grown || trace_->grown_axis < 0) return;
    for (const FlowValue fresh : trace_->fresh) {
      const Sizes more = known_sizes(facts_.flow, fresh);
      if (more.size() != sizes_.size()) continue;
      for (size_t axis = 0; axis < sizes_.size(); ++axis) {
        if (sizes_[axis] < 0 && static_cast<int>(axis) != trace_->grown_axis && axis != 0) sizes_[axis] = more[axis];
      }
    }
  }

  std::string_view token_symbol(int axis) const {
    return facts_.token_input < 0 ? std::string_view() : symbol_at(file_.inputs[static_cast<size_t>(facts_.token_input)], axis);
  }

  bool is_batch_symbol(std::string_view symbol) const {
    return !symbol.empty() && (symbol == token_symbol(0) || mentions(symbol, "batch"));
  }

  int recurrent_batch_axis() const {
    for (int axis = 0; axis < static_cast<int>(sizes_.size()); ++axis) {
      if (is_batch_symbol(symbol_at(port_, axis))) return axis;
    }
    for (int axis = 0; axis < static_cast<int>(sizes_.size()); ++axis) {
      if (sizes_[static_cast<size_t>(axis)] < 0) return axis;
    }
    for (int axis = 0; axis < static_cast<int>(sizes_.size()); ++axis) {
      if (could_be_batch(axis)) return axis;
    }
    return -1;
  }

  // A fixed size that a batch axis can have: 1, or the declared batch size of the tokens.
  bool could_be_batch(int axis) const {
    const int64_t size = sizes_[static_cast<size_t>(axis)];
    if (size == 1 || facts_.token_input < 0) return size == 1;
    const Port& tokens = file_.inputs[static_cast<size_t>(facts_.token_input)];
    return tokens.dims.size() > 1 && size == size_at(tokens, 0);
  }

  int position_axis() const {
    if (trace_ != nullptr && state_.growth != Growth::kConstant) {
      if (trace_->grown && trace_->grown_axis >= 0) return trace_->grown_axis;
      if (trace_->written && trace_->written_axis >= 0) return trace_->written_axis;
    }
    if (trace_ != nullptr && trace_->attended_axis >= 0) return trace_->attended_axis;
    if (const int axis = axis_that_differs(); axis >= 0) return axis;
    if (trace_ != nullptr && trace_->cut_axis >= 0) return trace_->cut_axis;
    if (const int axis = axis_with_position_symbol(); axis >= 0) return axis;
    return static_cast<int>(sizes_.size()) <= 3 ? 1 : static_cast<int>(sizes_.size()) - 2;
  }

  // The axis whose symbol differs in the output.
  int axis_that_differs() const {
    if (state_.input < 0 || state_.output < 0 || state_.growth == Growth::kConstant) return -1;
    const Port& out = file_.outputs[static_cast<size_t>(state_.output)];
    int found = -1;
    for (int axis = 0; axis < static_cast<int>(sizes_.size()); ++axis) {
      const std::string_view before = symbol_at(port_, axis);
      const std::string_view after = symbol_at(out, axis);
      if (size_at(port_, axis) != size_at(out, axis) && size_at(port_, axis) >= 0 && size_at(out, axis) >= 0) return axis;
      if (before.empty() || after.empty() || before == after) continue;
      if (mentions(after, before)) return axis;
      if (found < 0 && axis > 0) found = axis;  // every tensor may have its own batch symbol
    }
    return found;
  }

  int axis_with_position_symbol() const {
    for (int axis = 0; axis < static_cast<int>(sizes_.size()); ++axis) {
      const std::string_view symbol = symbol_at(port_, axis);
      if (symbol.empty() || is_batch_symbol(symbol)) continue;
      if (symbol == token_symbol(1) || mentions(symbol, "seq") || mentions(symbol, "past") || mentions(symbol, "len") ||
          mentions(symbol, "total"))
        return axis;
    }
    for (int axis = 1; axis < static_cast<int>(sizes_.size()); ++axis) {
      if (sizes_[static_cast<size_t>(axis)] < 0 && !is_batch_symbol(symbol_at(port_, axis))) return axis;
    }
    return -1;
  }

  int batch_axis() const {
    const int rank = static_cast<int>(sizes_.size());
    for (int axis = 0; axis < rank; ++axis) {
      if (axis != state_.position_axis && is_batch_symbol(symbol_at(port_, axis))) return axis;
    }
    for (int axis = 0; axis + 1 < rank; ++axis) {
      if (axis != state_.position_axis && sizes_[static_cast<size_t>(axis)] < 0) return axis;
    }
    // All sizes are fixed: the batch comes before heads, positions and features, or there is none.
    std::vector<int> rest;
    for (int axis = 0; axis < rank; ++axis) {
      if (axis != state_.position_axis) rest.push_back(axis);
    }
    if (rest.size() >= 3 && could_be_batch(rest[rest.size() - 3])) return rest[rest.size() - 3];
    for (const int axis : rest) {
      if (axis + 1 < rank && could_be_batch(axis)) return axis;
    }
    return -1;
  }

  void assign_other_axes() {
    std::vector<int> rest, layers;
    for (int axis = 0; axis < static_cast<int>(sizes_.size()); ++axis) {
      if (axis == state_.position_axis || axis == state_.batch_axis) continue;
      (is_taken_apart(axis) ? layers : rest).push_back(axis);
    }
    if (rest.empty()) return;
    state_.feature_axis = rest.back();
    rest.pop_back();
    if (rest.empty()) {
      assign_stacked_axes(layers);
      return assign_merged_heads();
    }
    state_.head_axis = rest.back();
    rest.pop_back();
    layers.insert(layers.end(), rest.begin(), rest.end());
    std::sort(layers.begin(), layers.end());
    assign_stacked_axes(layers);
    state_.n_heads = std::max<int64_t>(sizes_[static_cast<size_t>(state_.head_axis)], 0);
    state_.head_dim = std::max<int64_t>(sizes_[static_cast<size_t>(state_.feature_axis)], 0);
    if (state_.holds == State::Holds::kKeyValue && state_.key_value_axis < 0) state_.head_dim /= 2;
    read_attributes();
  }

  // Every index along the axis is selected separately: layers, or keys and values.
  bool is_taken_apart(int axis) const {
    if (trace_ == nullptr) return false;
    std::set<int64_t> indices;
    for (const StateTrace::Part& part : trace_->parts) {
      if (part.axis == axis) indices.insert(part.index);
    }
    return static_cast<int64_t>(indices.size()) == sizes_[static_cast<size_t>(axis)];
  }

  void assign_stacked_axes(std::vector<int> rest) {
    if (state_.holds == State::Holds::kKeyValue) {
      state_.key_value_axis = key_value_axis(rest);
      std::erase(rest, state_.key_value_axis);
    }
    if (rest.empty()) return;
    state_.layer_axis = rest.back();
    state_.n_layers = std::max<int64_t>(sizes_[static_cast<size_t>(state_.layer_axis)], 1);
    if (state_.layer < 0) state_.layer = 0;
  }

  // The axis of size 2 with keys at one index and values at the other; else the innermost axis of size 2.
  int key_value_axis(const std::vector<int>& rest) const {
    int inner = -1;
    for (const int axis : rest) {
      if (sizes_[static_cast<size_t>(axis)] != 2) continue;
      if (separates_keys_and_values(axis)) return axis;
      inner = axis;
    }
    return inner;
  }

  bool separates_keys_and_values(int axis) const {
    if (trace_ == nullptr) return false;
    std::set<int64_t> of_keys, of_values;
    for (const StateTrace::Part& part : trace_->parts) {
      if (part.axis != axis) continue;
      if (part.as_key) of_keys.insert(part.index);
      if (part.as_value) of_values.insert(part.index);
    }
    return of_keys.size() == 1 && of_values.size() == 1 && of_keys != of_values;
  }

  // Rank 3: one head, heads merged into the features, or heads merged into the batch.
  void assign_merged_heads() {
    const int64_t width = sizes_[static_cast<size_t>(state_.feature_axis)];
    const std::string_view batch = symbol_at(port_, state_.batch_axis);
    const bool declared_as_merged = mentions(batch, "head") || mentions(batch, "*") || mentions(batch, " x ");
    if (declared_as_merged || splits_into_heads(width)) {
      state_.head_axis = state_.batch_axis;
      state_.head_dim = std::max<int64_t>(width, 0);
      state_.n_heads = reshaped_heads(state_.head_dim);
      return;
    }
    if (state_.holds == State::Holds::kKeyValue) {
      state_.n_heads = 1;
      state_.head_dim = std::max<int64_t>(width, 0) / 2;
      return;
    }
    read_attributes();
    if (state_.n_heads == 0) {
      state_.n_heads = 1;
      for (const auto& [heads, dim] : reshaped_pairs()) {
        if (heads * dim == width) state_.n_heads = heads;
      }
    }
    if (width > 0 && width % state_.n_heads == 0) state_.head_dim = width / state_.n_heads;
  }

  // Whether it is reshaped to several heads that each have all its features.
  bool splits_into_heads(int64_t width) const {
    bool several = false;
    for (const auto& [heads, dim] : reshaped_pairs()) {
      if (heads * dim == width) return false;
      several |= dim == width && heads > 1;
    }
    return several && state_.holds != State::Holds::kKeyValue;
  }

  // Heads and features in the targets of its Reshapes, adjacent or with a length between them.
  std::vector<std::pair<int64_t, int64_t>> reshaped_pairs() const {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    if (trace_ == nullptr) return pairs;
    for (const auto& target : trace_->reshapes) {
      if (target.size() != 4 || !target[3] || *target[3] <= 0) continue;
      for (const size_t at : {size_t{1}, size_t{2}}) {
        if (target[at] && *target[at] > 0 && *target[at] < (1 << 20) && *target[3] < (1 << 20)) pairs.emplace_back(*target[at], *target[3]);
      }
    }
    return pairs;
  }

  int64_t reshaped_heads(int64_t head_dim) const {
    for (const auto& [heads, dim] : reshaped_pairs()) {
      if (head_dim == 0 || dim == head_dim) return heads;
    }
    return 0;
  }

  // Head count and head size from the attributes of an attention operator.
  void read_attributes() {
    const FlowNode* node = trace_ == nullptr ? nullptr : trace_->use.node;
    if (node == nullptr || node->node == nullptr) return;
    const int64_t queries = node->node->int_or("num_heads", node->node->int_or("q_num_heads", 0));
    const int64_t heads = node->node->int_or("kv_num_heads", queries);
    if (heads <= 0 || queries < 0 || heads > (1 << 20) || queries > (1 << 20)) return;
    if (state_.n_heads == 0) state_.n_heads = heads;
    if (state_.head_dim != 0 || state_.feature_axis < 0) return;
    const StatefulOperator* op = stateful_operator(*node);
    if (op == nullptr || op->key_input < 0) return;
    const int at = state_.holds == State::Holds::kValue ? op->value_input : op->key_input;
    if (const auto width = last_dim_or_none(node->input(static_cast<size_t>(at)))) {
      state_.head_dim = *width % heads == 0 ? *width / heads : 0;
    } else if (const auto packed = last_dim_or_none(node->input(0)); packed && node->input(1) == kNone) {
      state_.head_dim = *packed % (queries + 2 * heads) == 0 ? *packed / (queries + 2 * heads) : 0;
    }
  }

  std::optional<int64_t> last_dim_or_none(FlowValue value) const {
    if (value == kNone) return {};
    const auto size = last_dim(facts_.flow, value);
    return size && *size > 0 ? size : std::nullopt;
  }

  const GraphFacts& facts_;
  const File& file_;
  State& state_;
  const Port& port_;
  const StateTrace* trace_;
  Sizes sizes_;
};

// Numbers layers in order if their names have no numbers or all the same number.
void number_layers(std::vector<State>& states) {
  using Group = std::pair<int, bool>;
  std::map<Group, std::vector<State*>> groups;
  for (State& state : states) groups[{static_cast<int>(state.holds), state.cross}].push_back(&state);
  for (auto& [group, members] : groups) {
    std::set<int> numbers;
    const bool numbered =
        std::all_of(members.begin(), members.end(), [&](const State* s) { return s->layer >= 0 && numbers.insert(s->layer).second; });
    // Several recurrent states of one layer have the same number.
    const bool has_numbers = std::all_of(members.begin(), members.end(), [](const State* s) { return s->layer >= 0; });
    const bool shared = group.first == static_cast<int>(State::Holds::kRecurrent) && has_numbers;
    if (numbered || shared) continue;
    int next = 0;
    for (State* state : members) {
      state->layer = next;
      next += static_cast<int>(std::min<int64_t>(state->n_layers, 1 << 20));
    }
  }
}

}  // namespace

void find_axes(const GraphFacts& facts, const File& file, std::vector<State>& states) {
  for (State& state : states) Axes(facts, file, state).run();
  number_layers(states);
}

}  // namespace kvik::analysis
